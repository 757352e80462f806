package wal

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// entry returns the record of a standalone history's n-th entry.
func entry(n int, payload string) Record {
	return Record{Kind: Append, Zxid: jute.Zxid(n), Prev: jute.Zxid(n - 1), Payload: []byte(payload)}
}

func mustOpen(t testing.TB, o Options) (*Log, *Recovered) {
	t.Helper()
	l, rec, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return l, rec
}

func mustAppend(t testing.TB, l *Log, batch ...Record) {
	t.Helper()
	if err := l.Append(batch); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Sync(); err != nil {
		t.Fatal(err)
	}
}

func replay(t testing.TB, l *Log, after jute.Zxid) []string {
	t.Helper()
	var got []string
	err := l.Replay(after, func(r Record) error {
		got = append(got, fmt.Sprintf("%s %s", r.Zxid, r.Payload))
		return nil
	})
	if err != nil {
		t.Fatalf("replay behind %s: %v", after, err)
	}
	return got
}

func TestReopenKeepsAll(t *testing.T) {
	o := Options{Dir: t.TempDir(), Ident: []byte("me")}
	l, rec := mustOpen(t, o)
	if !rec.New || string(rec.Ident) != "me" {
		t.Fatalf("new log: %+v", rec)
	}
	var want []string
	for round := range 5 {
		for i := range 100 {
			n := round*100 + i + 1
			e := entry(n, fmt.Sprint("payload ", n))
			want = append(want, fmt.Sprintf("%s %s", e.Zxid, e.Payload))
			if err := l.Append([]Record{e}); err != nil {
				t.Fatal(err)
			}
		}
		mustAppend(t, l, Record{Kind: Promise, Payload: []byte{byte(round)}})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		o.Ident = []byte("somebody else")
		l, rec = mustOpen(t, o)
		if rec.New || rec.LastZxid != jute.Zxid(len(want)) || string(rec.Ident) != "me" || !bytes.Equal(rec.Promise, []byte{byte(round)}) {
			t.Fatalf("round %d: %+v", round, rec)
		}
		if got := replay(t, l, 0); !slices.Equal(got, want) {
			t.Fatalf("round %d: got %d entries %.200q, want %d", round, len(got), got, len(want))
		}
		if got := replay(t, l, 37); !slices.Equal(got, want[37:]) {
			t.Fatalf("round %d: behind 37: %.200q", round, got)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
