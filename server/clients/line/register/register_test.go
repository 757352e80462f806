package register

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/watch"
)

// testConn is a connection of a session that is only in the register.
type testConn uint64

func (c testConn) Origin() uint64                     { return uint64(c) }
func (c testConn) SessionID() jute.SessionID          { return jute.SessionID(c) }
func (c testConn) LastTouch() (LastTouch, bool)       { return LastTouch{Session: c.SessionID()}, true }
func (c testConn) WatchHandle() (watch.Watcher, bool) { return 0, false }

// A report of touches means that its server knows all of them up to a moment. So a
// connection that ends while the report is made must be in it, alive or ended.
func TestReportMissesNoConnectionThatEnds(t *testing.T) {
	const rounds, each = 3_000, 100
	for round := range rounds {
		r := New[testConn](true)
		var open []testConn
		for i := range each {
			c := testConn(i + 1)
			r.Add(c, "10.0.0.2", 0, 0)
			r.Claim(c.SessionID(), c)
			open = append(open, c)
		}
		var removing sync.WaitGroup
		var done atomic.Bool
		removing.Go(func() {
			for _, c := range open {
				r.Remove(c, "10.0.0.2")
			}
			done.Store(true)
		})
		reported := 0 // as ended
		for last := false; !last; {
			last = done.Load()
			live, ended := r.LiveAndEnded()
			if reported += len(ended); len(live)+reported != each {
				t.Fatalf("round %d: %d connections are live and %d were reported as ended, want %d in all", round, len(live), reported, each)
			}
			runtime.Gosched() // so that connections end on one processor, too; a miss shows only on several
		}
		removing.Wait()
	}
}
