package wal

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/internal/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// TestReader follows a log over several segments while it is written.
func TestReader(t *testing.T) {
	fsys := crashfs.New(1)
	l, _ := mustOpen(t, testOptions(fsys))
	var r *Reader
	want := 1
	for n := 1; n <= 200; n++ {
		if err := l.Append([]Record{entry(n, fmt.Sprintf("%*d", n*7, n))}); err != nil {
			t.Fatal(err)
		}
		if n == 10 {
			var err error
			if r, err = l.NewReader(4); err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			want = 5
		}
		if n < 10 || n%13 != 0 {
			continue
		}
		for want <= n {
			got, err := r.Next(2000)
			if err != nil || len(got) == 0 {
				t.Fatalf("at %d of %d: %v, %v", want, n, got, err)
			}
			for _, e := range got {
				if e.Zxid != jute.Zxid(want) || string(e.Payload) != fmt.Sprintf("%*d", want*7, want) {
					t.Fatalf("got %s %q, want %d", e.Zxid, e.Payload, want)
				}
				want++
			}
		}
		if got, err := r.Next(2000); err != nil || len(got) > 0 {
			t.Fatalf("behind the end: %v, %v", got, err)
		}
	}
	if err := l.Append([]Record{{Kind: Truncate, Zxid: 199}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Next(1); !errors.Is(err, ErrRewritten) {
			t.Fatalf("behind a truncation: %v", err)
		}
	}
}
