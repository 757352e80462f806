package clients

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// testConn returns a connection of a session that is only in the register.
func testConn(r *conns, origin uint64) *conn {
	c := &conn{id: origin}
	c.session.Store(int64(origin))
	r.add(c, "10.0.0.2", 0, 0)
	r.claim(jute.SessionID(origin), c)
	return c
}

// A report of touches means that its server knows all of them up to a moment. So a
// connection that ends while the report is made must be in it, alive or ended.
func TestReportMissesNoConnectionThatEnds(t *testing.T) {
	const rounds, each = 3_000, 100
	for round := range rounds {
		r := newConns(true)
		var open []*conn
		for i := range each {
			open = append(open, testConn(r, uint64(i+1)))
		}
		var removing sync.WaitGroup
		var done atomic.Bool
		removing.Go(func() {
			for _, c := range open {
				r.remove(c, "10.0.0.2")
			}
			done.Store(true)
		})
		reported := 0 // as ended
		for last := false; !last; {
			last = done.Load()
			live, ended := r.liveAndEnded()
			if reported += len(ended); len(live)+reported != each {
				t.Fatalf("round %d: %d connections are live and %d were reported as ended, want %d in all", round, len(live), reported, each)
			}
			runtime.Gosched() // so that connections end on one processor, too; a miss shows only on several
		}
		removing.Wait()
	}
}
