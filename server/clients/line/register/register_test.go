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
			r.Add(c, "10.0.0.2", Direct, Most{})
			r.Claim(c.SessionID(), c)
			open = append(open, c)
		}
		var removing sync.WaitGroup
		var done atomic.Bool
		removing.Go(func() {
			for _, c := range open {
				r.Remove(c, "10.0.0.2", Direct)
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

// TestPlaces: what has a descriptor and what others carry have a limit each, one for both, and one for their address. An address
// gets up to 16 times as many as are left.
func TestPlaces(t *testing.T) {
	for _, tt := range []struct {
		name                      string
		most                      Most
		carrying, direct, carried int // that one address gets, one kind after the other
		others                    int // that another one gets then, with a descriptor
	}{
		{"no limit", Most{}, 100, 100, 100, 100},
		{"of an address", Most{PerIP: 20}, 20, 0, 20, 20},
		{"in all", Most{All: 17}, 100, 16, 0, 1},
		{"descriptors", Most{Of: places{17}}, 16, 0, 100, 1},
		{"carried", Most{Of: places{Carried: 17}}, 100, 100, 16, 100},
		{"descriptors and carried", Most{Of: places{Direct: 34, Carried: 85}}, 32, 0, 80, 2},
		{"descriptors, and fewer in all", Most{Of: places{170}, All: 9}, 100, 9, 0, 0},
	} {
		r := New[testConn](false)
		var leave []func()
		add := func(ip string, kind Kind) (n int) {
			as := kind
			if kind == Carrying {
				as = Direct
			}
			for ; n < 100; n++ {
				c := testConn(len(leave) + 1)
				if !r.Add(c, ip, as, tt.most) {
					break
				}
				if kind == Carrying {
					r.Carries(ip)
				}
				leave = append(leave, func() { r.Remove(c, ip, kind) })
			}
			return n
		}
		got := [...]int{add("a", Carrying), add("a", Direct), add("a", Carried), add("b", Direct)}
		if want := [...]int{tt.carrying, tt.direct, tt.carried, tt.others}; got != want {
			t.Errorf("%s: that carry, with descriptors, carried, of others: %d, want %d", tt.name, got, want)
		}
		for _, f := range leave {
			f()
		}
		if r.places != (places{}) || len(r.byIP) > 0 {
			t.Errorf("%s: %+v are left, and %d addresses", tt.name, r.places, len(r.byIP))
		}
	}
}
