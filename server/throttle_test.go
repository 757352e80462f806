package server

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// slowDisk lets a test hold up the log.
type slowDisk struct {
	fs *crashfs.FS
	sync.Mutex
}

func newSlowDisk() *slowDisk {
	d := &slowDisk{fs: crashfs.New(1)}
	d.fs.SetHook(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpSync {
			d.Lock()
			defer d.Unlock()
		}
		return nil
	})
	return d
}

func (s *testServer) tryConnect(t *testing.T, ip string) (*client, bool) {
	t.Helper()
	c := s.dial(t, dialOptions{ip: ip})
	c.nc.Write(frameOf((&jute.ConnectRequest{TimeoutMs: 10_000}).Append(nil))) // fails if it is closed already
	c.nc.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.frame(); err != nil {
		return c, false
	}
	return c, true
}

func TestConnectionLimits(t *testing.T) {
	for _, test := range []struct {
		lines []string
		most  int   // of each of three addresses
		want  []int // admitted
	}{
		{[]string{"maxClientCnxns=0"}, 4, []int{4, 4, 4}},
		{[]string{"maxClientCnxns=3"}, 4, []int{3, 3, 3}},
		{[]string{"maxClientCnxns=3", "maxCnxns=5"}, 4, []int{3, 2, 0}},
		{[]string{"maxClientCnxns=0", "maxCnxns=16"}, 20, []int{16, 0, 0}},
		{[]string{"maxClientCnxns=0", "maxCnxns=40"}, 40, []int{38, 2, 0}}, // the last ones are not for an address with many
	} {
		synctest.Test(t, func(t *testing.T) {
			s := startServer(t, test.lines...)
			var first *client
			for i, want := range test.want {
				got := 0
				for range test.most {
					c, ok := s.tryConnect(t, fmt.Sprintf("10.0.1.%d", i))
					if ok {
						got++
						first = c
					}
				}
				if got != want {
					t.Errorf("%v: %d of address %d were admitted, want %d", test.lines, got, i, want)
				}
			}
			first.nc.Close() // makes room for one
			synctest.Wait()
			ip, _, _ := strings.Cut(first.nc.LocalAddr().String(), ":")
			if _, ok := s.tryConnect(t, ip); !ok {
				t.Errorf("%v: the place of a connection that has gone is not free", test.lines)
			}
		})
	}
}

func TestConnectionThrottleRefillsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "connection_throttle_tokens=3", "connection_throttle_fill_time=1000", "connection_throttle_fill_count=2")
		for round, want := range []int{3, 2, 2} {
			got := 0
			for range 5 {
				if _, ok := s.tryConnect(t, "10.0.0.2"); ok {
					got++
				}
			}
			if got != want {
				t.Errorf("second %d: %d connects were let in, want %d", round, got, want)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		got := 0
		for range 5 {
			if _, ok := s.tryConnect(t, "10.0.0.2"); ok {
				got++
			}
		}
		if got != 3 {
			t.Errorf("after an hour %d were let in, want a full bucket of 3", got)
		}
	})
}

// TestLargeRequestsAreBounded checks that a request that exceeds the sum ends its
// connection, and that the bytes are released when the others are answered or
// disconnected.
func TestLargeRequestsAreBounded(t *testing.T) {
	disk := newSlowDisk()
	s := startOn(t, disk.fs, "/data", "largeRequestThreshold=1000", "largeRequestMaxBytes=5000")
	value := strings.Repeat("x", 2000)
	var clients []*client
	for range 4 {
		clients = append(clients, s.connect(t))
	}
	disk.Lock()
	for i, c := range clients[:3] {
		c.send(jute.OpSetData, set("/", value))
		c.nc.Out.Drained()
		if i == 2 {
			c.eof("a request beyond the sum")
		}
	}
	clients[3].send(jute.OpSetData, set("/", "small"))
	clients[1].nc.Close()
	disk.Unlock()
	for _, c := range []*client{clients[0], clients[3]} {
		if r := c.must(); r.Err != 0 {
			t.Errorf("reply %v", r)
		}
	}
	clients[3].set("/", value)
	clients[0].set("/", value)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := s.overview.read().LargeBytes; n != 0 {
		t.Errorf("%d bytes count as being in work in the end", n)
	}
	if n := s.metrics.LargeRejected.Load(); n != 1 {
		t.Errorf("%d requests were rejected, want 1", n)
	}
}

// TestRequestsThatWaitedTooLongAreNotDone also checks that they are answered in their
// order.
func TestRequestsThatWaitedTooLongAreNotDone(t *testing.T) {
	s := startServer(t, "zookeeper.throttled_op_wait_time=10")
	s.throttlesOps(t, 10*time.Millisecond)
}

// throttlesOps makes requests wait longer than throttled_op_wait_time, which is limit.
func (s *testServer) throttlesOps(t *testing.T, limit time.Duration) {
	c, first := s.connect(t), s.connect(t)
	taken, received := s.metrics.Taken.Count(), s.metrics.PacketsReceived.Load()
	s.state.Lock() // holds up the leader
	first.send(jute.OpSetData, set("/", ""))
	first.nc.Out.Drained()
	for s.metrics.Taken.Count() < taken+1 { // it has taken the first, and the others wait
		runtime.Gosched()
	}
	create1 := c.send(jute.OpCreate, create("/a", "", 0))
	read := c.send(jute.OpGetData, get("/", false))
	create2 := c.send(jute.OpCreate, create("/b", "", 0))
	// The time counts from when the server has read them, however late that is.
	for s.metrics.PacketsReceived.Load() < received+4 {
		runtime.Gosched()
	}
	for all := s.now(); s.now()-all <= limit; {
		runtime.Gosched()
	}
	s.state.Unlock()
	for _, want := range []struct {
		xid int32
		err jute.Code
	}{{create1, jute.ErrThrottledOp}, {read, 0}, {create2, jute.ErrThrottledOp}} {
		if r := c.must(); r.Xid != want.xid || r.Err != want.err {
			t.Errorf("got %v, want xid %d err %d", r, want.xid, want.err)
		}
	}
	if c.exists("/a") || c.exists("/b") {
		t.Error("a throttled request was done")
	}
	s.noErrors(t)
}

func TestEnforcedAuth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "enforce.auth.enabled=true", "enforce.auth.schemes=digest")
		good := s.connect(t)
		good.auth("a:b")
		good.create("/a", "")
		for _, op := range []jute.OpCode{jute.OpGetData, jute.OpSetData, jute.OpPing, jute.OpSync, 999} {
			c := s.connect(t)
			c.sendFrame(requestFrame(5, op, get("/", false)))
			if r := c.must(); r.Err != jute.ErrSessionClosedRequireSASL || r.Xid != 5 || r.Zxid != 0 {
				t.Errorf("%v without credentials: %v", op, r)
			}
			c.eof("no credentials")
		}
		off := startServer(t, "enforce.auth.enabled=false", "enforce.auth.schemes=digest")
		off.connect(t).create("/a", "")
	})
}

// TestBadAuthEndsTheConnection checks that it ends after its reply.
func TestBadAuthEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		for _, scheme := range []string{"nosuch", "sasl", ""} {
			c := s.connect(t)
			c.sendFrame(requestFrame(jute.XidAuth, jute.OpAuth, &jute.AuthRequest{Scheme: scheme, Auth: []byte("x")}))
			if r := c.must(); r.Err != jute.ErrAuthFailed || r.Xid != jute.XidAuth || r.Zxid != 0 {
				t.Errorf("scheme %q: %v", scheme, r)
			}
			c.eof("bad auth")
		}
		c := s.connect(t)
		c.sendFrame(requestFrame(77, jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: []byte("u:p")})) // as the Go client does
		if r := c.must(); r.Err != 0 || r.Xid != 77 {
			t.Errorf("auth with an ordinary xid: %v", r)
		}
	})
}

// TestClientThatDoesNotReadIsNotRead checks that, whichever goroutine wrote its socket
// last, a client that does not read its replies can't make the server hold more than a
// few of them, and that it gets all of them when it reads again.
func TestClientThatDoesNotReadIsNotRead(t *testing.T) {
	for name, begin := range map[string]jute.OpCode{"a read": jute.OpGetData, "a write": jute.OpSetData} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startServer(t)
				other := s.connectFor(t, 20_000)
				const size, reads = 200_000, 500
				other.create("/big", strings.Repeat("x", size))
				c := s.dial(t, dialOptions{window: 64 << 10})
				c.establish(&jute.ConnectRequest{TimeoutMs: 20_000})
				if begin == jute.OpSetData {
					c.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistent})
					for range 3000 { // the writer fills the socket
						other.set("/", "")
					}
				}
				var sent sync.WaitGroup
				sent.Go(func() {
					for range reads {
						c.send(jute.OpGetData, get("/big", false))
					}
				})
				synctest.Wait()
				_, replies, _ := s.clients.Held()
				if held := replies.Bytes; held > 2*size {
					t.Errorf("the server holds %d bytes of replies that the client does not take", held)
				}
				other.ping()
				got := 0
				for got < reads {
					if r := c.must(); r.Xid > 0 {
						got++
					}
				}
				sent.Wait()
			})
		})
	}
}
