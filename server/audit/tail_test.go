package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// nowhere is a Sink.
type nowhere struct{}

func (nowhere) Write(lines []byte, _ []Result) (int, error) { return len(lines), nil }
func (nowhere) Close() error                                { return nil }

// TestTail puts more entries into a log than its tail has.
func TestTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tail := NewTail()
		l := Open(Options{Sink: nowhere{}, Bare: true, Tail: tail})
		defer l.Close()
		if first, lines := tail.After(0, 10); first != 1 || lines != nil {
			t.Errorf("an empty tail: %d, %q", first, lines)
		}
		_, more := tail.Last()
		for i := 1; i <= tailEntries+5; i++ {
			l.Put(&Entry{Operation: Create, Znode: fmt.Sprintf("/%d", i)})
		}
		<-more
		for _, c := range []struct {
			after uint64
			most  int
			first uint64
			count int
		}{{0, 3, 6, 3}, {5, 9999, 6, tailEntries}, {1000, 2, 1001, 2}, {tailEntries + 4, 9, tailEntries + 5, 1}, {tailEntries + 5, 9, tailEntries + 6, 0}, {5000, 9, 5001, 0}} {
			first, lines := tail.After(c.after, c.most)
			if first != c.first || len(lines) != c.count || c.count > 0 && !strings.Contains(string(lines[0]), fmt.Sprintf(`"/%d"`, c.first)) {
				t.Errorf("after %d: %d from %d, %q", c.after, len(lines), first, lines[:min(1, len(lines))])
			}
		}
		if last, _ := tail.Last(); last != tailEntries+5 {
			t.Errorf("the last is %d", last)
		}
	})
}

// lines is a Sink that keeps them.
type lines struct {
	nowhere
	got []byte
}

func (s *lines) Write(b []byte, results []Result) (int, error) {
	s.got = append(s.got, b...)
	return len(b), nil
}

// TestTailOfEachLog: the tail has JSON with a time whatever the log has, and the lines of a log that has the same.
func TestTailOfEachLog(t *testing.T) {
	for _, o := range []Options{{}, {Bare: true}, {JSON: true}, {JSON: true, Bare: true}} {
		synctest.Test(t, func(t *testing.T) {
			out := new(lines)
			o.Sink, o.Tail = out, NewTail()
			l := Open(o)
			entries := []Entry{
				{Session: 7, Operation: Create, Znode: "/a", Zxid: 9},
				{Operation: SetData, Znode: "/" + strings.Repeat("n", 2*tailField), Result: Failure},
				{Operation: Delete, Znode: "/b"},
			}
			var want string
			for i := range entries {
				short, isCut := entries[i].short()
				if isCut != (i == 1) {
					t.Errorf("entry %d is cut: %v", i, isCut)
				}
				at := time.Now().AppendFormat(nil, timeLayout)
				want += string(appendTimed(nil, AppendJSON(nil, &short), at)) + "\n"
				l.Put(&entries[i])
				time.Sleep(time.Millisecond)
			}
			l.Close()
			_, tail := o.Tail.After(0, 9)
			var got string
			for _, line := range tail {
				got += string(line) + "\n"
			}
			if got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			if same := strings.Split(string(out.got), "\n")[0] == string(tail[0]); same != (o.JSON && !o.Bare) {
				t.Errorf("%+v: the log has %s", o, out.got)
			}
		})
	}
}

// TestTailIsBounded puts entries of the greatest length.
func TestTailIsBounded(t *testing.T) {
	tail := NewTail()
	long := strings.Repeat("\x01é", 1<<12)
	e := Entry{Operation: SetACL, Znode: "/" + long, Key: long, Value: long, User: long}
	for range 100 {
		e.IDs = append(e.IDs, jute.ID{Scheme: "ip", ID: long})
		e.ACL = append(e.ACL, jute.ACL{ID: jute.ID{Scheme: "world", ID: long}})
	}
	l := Open(Options{Sink: nowhere{}, JSON: true, Tail: tail})
	defer l.Close()
	l.Put(&e)
	_, lines := tail.After(0, 1)
	if len(lines[0]) > 100_000 || !json.Valid(lines[0]) {
		t.Errorf("a line has %d bytes", len(lines[0]))
	}
	if len(e.ACL) != 100 || e.ACL[0].ID.ID != long || e.Znode != "/"+long {
		t.Error("the entry of the log itself is cut")
	}
}
