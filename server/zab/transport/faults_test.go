package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// TestFaults breaks the path between servers 1 and 2 of three. The link must go down in
// time, the others must not notice, and the link must come back afterwards.
func TestFaults(t *testing.T) {
	tests := []struct {
		name     string
		breakIt  func(net *memNet)
		heal     func(net *memNet)
		downIn   time.Duration
		comeback time.Duration
	}{
		{"reset", func(n *memNet) { n.reset("s1", "s2") }, func(*memNet) {}, 0, 100 * time.Millisecond},
		{"black hole", func(n *memNet) { n.blackHole("s1", "s2", true) }, func(n *memNet) { n.blackHole("s1", "s2", false) },
			5 * time.Second, 1200 * time.Millisecond},
		{"1 to 2 alone", func(n *memNet) { n.hold("s1", "s2", true) }, func(n *memNet) { n.hold("s1", "s2", false) },
			5 * time.Second, 1200 * time.Millisecond},
		{"2 to 1 alone", func(n *memNet) { n.hold("s2", "s1", true) }, func(n *memNet) { n.hold("s2", "s1", false) },
			5 * time.Second, 1200 * time.Millisecond},
	}
	for _, tt := range tests {
		for _, outage := range []time.Duration{5 * time.Second, 47 * time.Second} {
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					net := newMemNet()
					a, b, c := newNode(t, net, 1, 3), newNode(t, net, 2, 3), newNode(t, net, 3, 3)
					within(t, time.Second, "all links", func() bool { return linked(a, b, c) })
					before := [2]uint64{a.gen(2), b.gen(1)}
					tt.breakIt(net)
					if tt.downIn > 0 {
						within(t, tt.downIn, "both sides notice", func() bool { return a.gen(2) == 0 && b.gen(1) == 0 })
						a.tr.Send(2, before[0], &zab.Message{Kind: zab.MsgPing, Seq: 1}) // must be dropped
						time.Sleep(outage)
						if a.gen(2) != 0 || !linked(a, c) || !linked(b, c) || c.links() != 2 {
							t.Errorf("during the outage: 1 has %v, 2 has %v, 3 had %d links", a.ids(), b.ids(), c.links())
						}
					}
					tt.heal(net)
					within(t, tt.comeback, "a new link", func() bool {
						return linked(a, b, c) && a.gen(2) > before[0] && b.gen(1) > before[1]
					})
					if got := b.received(); len(got) != 0 {
						t.Errorf("received %v, which was sent to an old link", got)
					}
				})
			})
		}
	}
}

// TestBlackHoleDelaysNobody starts a server among four peers that swallow all packets: the
// fifth is linked at once (ZOOKEEPER-900).
func TestBlackHoleDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		for _, dead := range []string{"s1", "s2", "s3", "s6"} {
			net.blackHole("s5", dead, true)
		}
		a, b := newNode(t, net, 4, 6), newNode(t, net, 5, 6)
		within(t, 50*time.Millisecond, "a link", func() bool { return linked(a, b) })
	})
}

// TestSeveralAddresses has a peer with three addresses: one swallows packets, one refuses,
// and one is right.
func TestSeveralAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		net.blackHole("s2", "hole", true)
		a := newNode(t, net, 1, 1)
		b := newNode(t, net, 2, 0, func(o *Options) {
			o.Peers = []Peer{{ID: 1, Addrs: []string{"hole:1", "refuses:1", addrOf(1)}}}
		})
		a.tr.SetPeers([]Peer{{ID: 2, Addrs: []string{addrOf(2)}}})
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
	})
}

// TestNoLocalPort: while a machine has no local port or descriptor for a link, its server tries on and says what is
// lacking. When there is one again, the link is made.
func TestNoLocalPort(t *testing.T) {
	for lack, says := range map[syscall.Errno]string{syscall.EADDRNOTAVAIL: "no local port is free", syscall.EMFILE: "no descriptor is free"} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lacks atomic.Bool
				lacks.Store(true)
				short := func(o *Options) {
					dial := o.DialFunc
					o.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
						if lacks.Load() {
							return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", lack)}
						}
						return dial(ctx, network, addr)
					}
				}
				mem := newMemNet()
				a, b := newNode(t, mem, 1, 2, short), newNode(t, mem, 2, 2, short)
				time.Sleep(time.Minute)
				if linked(a, b) {
					t.Fatal("they are linked")
				}
				if n := a.logged(says) + b.logged(says); n < 1 || n > 10 {
					t.Errorf("%d lines say that %s", n, says)
				}
				lacks.Store(false)
				within(t, 5*time.Second, "a link", func() bool { return linked(a, b) })
			})
		})
	}
}

// TestMoved: a server is at another address than the other one knows. Whichever of the two
// dials, they link, but only if servers move.
func TestMoved(t *testing.T) {
	for _, test := range []struct {
		id    zab.SID // of the server that has moved
		moves bool
		links bool
	}{{1, true, true}, {1, false, false}, {2, true, true}, {2, false, true}} {
		t.Run(fmt.Sprintf("%d, %v", test.id, test.moves), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newMemNet()
				one := newNode(t, net, 3-test.id, 0, func(o *Options) {
					o.Peers = []Peer{{ID: test.id, Addrs: []string{"refuses:1"}, Moves: test.moves}}
				})
				moved := newNode(t, net, test.id, 2, func(o *Options) { o.Advertise = []string{"nonsense", addrOf(test.id)} })
				time.Sleep(10 * time.Second)
				if got := linked(one, moved); got != test.links {
					t.Errorf("linked: %v, want %v", got, test.links)
				}
				if err := one.tr.SetPeers([]Peer{{ID: test.id, Addrs: []string{"refuses:1"}, Moves: test.moves}}); err != nil {
					t.Fatal(err)
				}
				want := "refuses:1"
				if test.moves {
					want = addrOf(test.id)
				}
				if got := one.tr.Peers()[0].Addrs; len(got) != 1 || got[0] != want {
					t.Errorf("addresses %q, want %q", got, want)
				}
			})
		})
	}
}

func TestSlowIsNotDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		a, b := newNode(t, net, 1, 2), newNode(t, net, 2, 2)
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
		net.setSlow("s1", "s2", 100_000) // so 3 MB take half a minute
		m := &zab.Message{Kind: zab.MsgAppend, Seq: 1, Entries: []zab.Entry{{Zxid: jute.MakeZxid(1, 1), Data: make([]byte, 3_000_000)}}}
		a.tr.Send(2, a.gen(2), m)
		within(t, 40*time.Second, "the message", func() bool { return len(b.received()) == 1 })
		if a.links() != 1 || b.links() != 1 {
			t.Errorf("links were cut: %v %v", a.why(), b.why())
		}
	})
}

// TestDifferentPatience gives servers different timeouts.
func TestDifferentPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		a := newNode(t, net, 1, 2, func(o *Options) { o.IdleTimeout = time.Minute })
		b := newNode(t, net, 2, 2, func(o *Options) { o.IdleTimeout = 2 * time.Second })
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
		time.Sleep(10 * time.Minute)
		if a.links() != 1 {
			t.Errorf("the link did not last: %v %v", a.why(), b.why())
		}
	})
}

// TestOutOfDescriptors makes accepting fail for a while.
func TestOutOfDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMemNet()
		short := &shortListener{}
		a := newNode(t, mem, 1, 2, func(o *Options) {
			o.ListenFunc = func(network, addr string) (l net.Listener, err error) {
				short.Listener, err = mem.listen(network, addr)
				return short, err
			}
		})
		b := newNode(t, mem, 2, 2)
		within(t, 2*time.Second, "a link", func() bool { return linked(a, b) })
		if n := a.logged("too many open files"); n != 1 || a.logged("listening for peers") != 1 {
			t.Errorf("log %v", a.logs.All())
		}
	})
}

// shortListener has no descriptor for the first connections.
type shortListener struct {
	net.Listener
	tries int
}

func (l *shortListener) Accept() (net.Conn, error) {
	if l.tries++; l.tries < 10 {
		return nil, syscall.EMFILE
	}
	return l.Listener.Accept()
}

func TestQueueOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		a, b := newNode(t, net, 1, 2, func(o *Options) { o.QueueBytes = 1 << 20 }), newNode(t, net, 2, 2)
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
		net.hold("s1", "s2", true)
		gen := a.gen(2)
		for range 12 {
			a.tr.SendApp(2, gen, Bulk, 1, make([]byte, 100<<10)) // must not block
		}
		synctest.Wait()
		if a.gen(2) == gen || len(a.why()) != 1 || !strings.Contains(a.why()[0], "too slow") {
			t.Errorf("the link is still up, or went down for another reason: %q", a.why())
		}
	})
}

func TestFrameTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		a, b := newNode(t, net, 1, 2, func(o *Options) { o.MaxFrame = 1000 }), newNode(t, net, 2, 2)
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
		a.tr.SendApp(2, a.gen(2), Bulk, 1, make([]byte, 2000))
		b.tr.SendApp(1, b.gen(1), Bulk, 1, make([]byte, 900))
		synctest.Wait()
		if len(a.why()) != 1 || len(b.apps()) != 0 {
			t.Errorf("sending more than MaxFrame: %q", a.why())
		}
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
		b.tr.SendApp(1, b.gen(1), Bulk, 1, make([]byte, 2000))
		synctest.Wait()
		if len(a.why()) != 2 || len(a.apps()) > 1 {
			t.Errorf("receiving more than MaxFrame: %q", a.why())
		}
	})
}

// TestBindFailsAtFirst checks that the listener waits for a port that is taken, and for a
// name that does not resolve yet (ZOOKEEPER-3320).
func TestBindFailsAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMemNet()
		var may atomic.Bool
		a := newNode(t, mem, 1, 2, func(o *Options) {
			o.ListenFunc = func(network, addr string) (net.Listener, error) {
				if !may.Load() {
					return nil, errors.New("no such host")
				}
				return mem.listen(network, addr)
			}
		})
		b := newNode(t, mem, 2, 2)
		time.Sleep(time.Minute)
		if n := a.logged("no such host"); n != 1 || len(a.tr.Addrs()) != 0 {
			t.Errorf("%d lines about the port", n)
		}
		if got := a.tr.Deaf(); got != addrOf(1)+": no such host" {
			t.Errorf("it says of the port: %q", got)
		}
		may.Store(true)
		within(t, 2*time.Second, "a link", func() bool { return linked(a, b) })
		if got := a.tr.Deaf(); got != "" {
			t.Errorf("it listens, and says: %q", got)
		}
		mem.mu.Lock()
		l := mem.listeners[addrOf(1)]
		mem.mu.Unlock()
		l.Close() // its interface is gone
		mem.reset("s1", "s2")
		within(t, 2*time.Second, "a link", func() bool { return linked(a, b) && len(a.tr.Addrs()) == 1 })
	})
}

// TestPortIsTaken checks that a start waits a little for a port that another program has, and then
// fails; for an address that is not there yet, the listener waits.
func TestPortIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNode(t, newMemNet(), 1, 2)
		for _, tt := range []struct {
			err      error
			times    int // that the port can't be had
			attempts int
			fails    bool
		}{
			{syscall.EADDRINUSE, 100, bindAttempts, true},
			{syscall.EACCES, 100, bindAttempts, true},
			{syscall.EADDRINUSE, 2, 3, false},
			{syscall.EADDRNOTAVAIL, 100, 1, false},
			{errors.New("no such host"), 100, 1, false},
		} {
			attempts := 0
			err := a.tr.checkPort(func(network, addr string) (net.Listener, error) {
				if attempts++; attempts <= tt.times {
					return nil, &net.OpError{Op: "listen", Err: tt.err}
				}
				return newMemNet().listen(network, addr)
			}, addrOf(1))
			if (err != nil) != tt.fails || err != nil && !errors.Is(err, tt.err) || attempts != tt.attempts {
				t.Errorf("%v, %d times: %v after %d attempts", tt.err, tt.times, err, attempts)
			}
		}
	})
}

func TestSetPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newMemNet()
		a, b, c := newNode(t, net, 1, 3), newNode(t, net, 2, 3), newNode(t, net, 3, 3)
		within(t, time.Second, "all links", func() bool { return linked(a, b, c) })
		one := Peer{ID: 1, Addrs: []string{addrOf(1)}}
		b.tr.SetPeers([]Peer{one})
		within(t, time.Second, "2 and 3 apart", func() bool { return b.gen(3) == 0 && c.gen(2) == 0 && linked(a, b) && linked(a, c) })
		time.Sleep(time.Minute)
		if b.gen(3) != 0 || a.links() != 2 {
			t.Error("a removed peer came back, or others lost their links")
		}
		if n := b.logged("not in the configuration"); n != 1 {
			t.Errorf("%d lines about a server that is not in the configuration", n)
		}
		b.tr.SetPeers([]Peer{one, {ID: 3, Addrs: []string{addrOf(3)}}})
		within(t, 2*time.Second, "all links", func() bool { return linked(a, b, c) })
		if s := b.tr.Peers(); len(s) != 2 || !s[1].Up || s[1].Links != 2 || s[1].ID != 3 {
			t.Errorf("status %+v", s)
		}
		if err := b.tr.SetPeers([]Peer{one, one}); err == nil {
			t.Error("the same peer twice was accepted")
		}
	})
}

// TestRestart replaces a server whose machine lost its power, so that nothing reveals that
// the old connection is dead. The new process must not have to wait for that.
func TestRestart(t *testing.T) {
	for _, id := range []zab.SID{1, 2} {
		t.Run(hostOf(id), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := newMemNet()
				other := newNode(t, mem, 3-id, 2)
				var crashed atomic.Bool
				old := newNode(t, mem, id, 2, func(o *Options) {
					dial := o.DialFunc
					o.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
						if crashed.Load() {
							return nil, syscall.ENETDOWN
						}
						return dial(ctx, network, addr)
					}
					o.ListenFunc = func(network, addr string) (net.Listener, error) {
						if crashed.Load() {
							return nil, syscall.ENETDOWN
						}
						return mem.listen(network, addr)
					}
				})
				within(t, time.Second, "a link", func() bool { return linked(old, other) })
				crashed.Store(true)
				mem.crash(hostOf(id))
				mem.mu.Lock()
				l := mem.listeners[addrOf(id)]
				mem.mu.Unlock()
				l.Close()
				young := newNode(t, mem, id, 2, func(o *Options) { o.Introduce = says(zab.Introduction{Boot: 77}) })
				within(t, time.Second, "a link with the new process", func() bool {
					return linked(young, other) && other.said()[id].Boot == 77
				})
				if len(other.why()) != 1 || !strings.Contains(other.why()[0], "again") {
					t.Errorf("why the old link went down: %q", other.why())
				}
			})
		})
	}
}

// TestClocksAreCompared sets the clock of one of two servers: each sees how far the other's is ahead, as far as the way
// between them lets it know.
func TestClocksAreCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set atomic.Int64
		mem := newMemNet()
		a := newNode(t, mem, 1, 2)
		b := newNode(t, mem, 2, 2, func(o *Options) {
			o.Wall = func() time.Time { return time.Now().Add(time.Duration(set.Load())) }
		})
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
		for _, by := range []time.Duration{0, time.Hour, -24 * time.Hour, 0} {
			set.Store(int64(by))
			time.Sleep(time.Minute)
			if got, back := a.tr.Peers()[0].ClockAhead, b.tr.Peers()[0].ClockAhead; (got-by).Abs() > time.Second || (back+by).Abs() > time.Second || by == 0 && got != 0 {
				t.Errorf("set by %v: the servers see %v and %v", by, got, back)
			}
		}
	})
}
