package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// closeWithin closes the server and requires that this takes no longer than
// most.
func (s *testServer) closeWithin(t *testing.T, most time.Duration) {
	t.Helper()
	begun := time.Now()
	done := make(chan error, 1)
	go func() { done <- s.Close() }()
	select {
	case err := <-done:
		if took := time.Since(begun); took > most {
			t.Errorf("close took %v (%v), want at most %v", took, err, most)
		}
	case <-time.After(10 * time.Minute):
		t.Fatalf("close has not returned after 10 minutes")
	}
}

func TestCloseAnswersWhatWasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		var clients []*client
		const each = 50
		for range 10 {
			c := s.connect(t)
			for i := range each {
				c.send(jute.OpSetData, set("/", strconv.Itoa(i)))
			}
			clients = append(clients, c)
		}
		synctest.Wait()
		s.closeWithin(t, time.Second)
		for i, c := range clients {
			for xid := range int32(each) {
				if r, err := c.next(); err != nil || r.Xid != xid+1 || r.Err != 0 {
					t.Fatalf("client %d: %v, %v; want the reply to %d", i, r, err, xid+1)
				}
			}
			c.eof("closed server")
		}
		if nc, err := s.net.dial("10.0.0.2", 10); err == nil {
			t.Errorf("connected to a closed server: %v", nc)
		}
		s.noErrors(t)
	})
}

// TestCloseDoesNotWaitFor checks that no client, whatever it does, keeps a server from
// stopping.
func TestCloseDoesNotWaitFor(t *testing.T) {
	for name, test := range map[string]struct {
		lines []string
		setUp func(t *testing.T, s *testServer)
		most  time.Duration
	}{
		"idle clients":              {setUp: func(t *testing.T, s *testServer) { s.connect(t) }},
		"clients without a session": {setUp: func(t *testing.T, s *testServer) { s.dial(t, dialOptions{}) }},
		"half a connect request": {setUp: func(t *testing.T, s *testServer) {
			s.dial(t, dialOptions{}).nc.Write([]byte{0, 0, 0, 45, 0, 0})
		}},
		"half a four-letter word": {setUp: func(t *testing.T, s *testServer) {
			s.dial(t, dialOptions{}).nc.Write([]byte("st"))
		}},
		"half an argument": {setUp: func(t *testing.T, s *testServer) {
			s.dial(t, dialOptions{}).nc.Write([]byte("stmk123"))
		}},
		"a client that does not read its replies": {setUp: func(t *testing.T, s *testServer) {
			c := s.dial(t, dialOptions{window: 100 << 10})
			c.establish(&jute.ConnectRequest{TimeoutMs: 10_000})
			c.create("/big", string(make([]byte, 200_000)))
			for range 20 {
				c.send(jute.OpGetData, get("/big", false))
			}
		}, most: 2 * time.Second},
		"a client that does not read its events": {setUp: func(t *testing.T, s *testServer) {
			c := s.dial(t, dialOptions{window: 1000})
			c.establish(&jute.ConnectRequest{TimeoutMs: 10_000})
			c.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistent})
			w := s.connect(t)
			for range 100 {
				w.set("/", "")
			}
		}, most: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startServer(t, test.lines...)
				test.setUp(t, s)
				synctest.Wait()
				s.closeWithin(t, max(test.most, time.Second))
			})
		})
	}
}

func TestStartAndCloseInAnyOrder(t *testing.T) {
	fs := crashfs.New(1)
	s := newTestServer(t, Options{FS: fs, Config: parseConfig(t, "/data")})
	if s.Addr() != nil {
		t.Errorf("address before start: %v", s.Addr())
	}
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		for s.Addr() == nil { // from any goroutine
			runtime.Gosched()
		}
	}()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-seen
	if err := s.Start(t.Context()); err == nil {
		t.Error("second Start succeeded")
	}
	c := s.connect(t)
	c.create("/a", "")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	wg.Wait()
	if err := s.Start(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}

	never := newTestServer(t, Options{FS: fs, Config: parseConfig(t, "/data")})
	if err := never.Close(); err != nil {
		t.Errorf("close before start: %v", err)
	}
	if err := never.Start(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}

	again := startOn(t, fs, "/data")
	if c := again.connect(t); !c.exists("/a") {
		t.Error("node is gone after a restart")
	}
}

// TestDataDirectoryIsLocked checks that a second server on the same data refuses to
// start, and does not affect the first one.
func TestDataDirectoryIsLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := crashfs.New(1)
		s := startOn(t, fs, "/data", "dataLogDir=/log")
		for _, dir := range [][2]string{{"/data", "/log"}, {"/data", "/log2"}, {"/data2", "/log"}} {
			second := newTestServer(t, Options{FS: fs, Config: parseConfig(t, dir[0], "dataLogDir="+dir[1])})
			if err := second.Start(t.Context()); !errors.Is(err, vfs.ErrLocked) {
				t.Errorf("second server on %v: %v", dir, err)
			}
			if err := second.Close(); err != nil {
				t.Errorf("close of the second: %v", err)
			}
		}
		c := s.connect(t)
		c.create("/a", "")
	})
}

// TestFailedDiskAcknowledgesNothing checks that after the failure no write is answered,
// Failed reports it to the owner, new clients are rejected, and acknowledged writes are
// there after a restart.
func TestFailedDiskAcknowledgesNothing(t *testing.T) {
	for _, test := range []struct {
		kind  crashfs.OpKind
		line  string
		reads int // after each write
		left  int // operations that still succeed
	}{
		{crashfs.OpSync, "globalOutstandingLimit=5", 0, 40},
		{crashfs.OpWrite, "globalOutstandingLimit=5", 0, 40},
		{crashfs.OpSync, "globalOutstandingLimit=5", 300, 10},
		{crashfs.OpSync, "globalOutstandingLimit=100000", 300, 1},
		{crashfs.OpSync, "globalOutstandingLimit=100000", 0, 1},
	} {
		kind, reads := test.kind, test.reads
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := crashfs.New(3)
				s := startOn(t, fs, "/data", test.line)
				var clients []*client
				acked := make([]int, 5)
				for i := range acked {
					c := s.connect(t)
					c.create("/n"+strconv.Itoa(i), "")
					clients = append(clients, c)
				}
				left := test.left
				fs.SetHook(func(op crashfs.Op) error {
					if op.Kind == kind {
						if left--; left <= 0 {
							return crashfs.ErrInjected
						}
					}
					return nil
				})
				var wg sync.WaitGroup
				for i, c := range clients {
					wg.Go(func() {
						for k := 1; k <= 100; k++ {
							c.send(jute.OpSetData, set("/n"+strconv.Itoa(i), strconv.Itoa(k)))
							for range reads {
								c.sendFrame(requestFrame(-7, jute.OpGetData, get("/", false)))
							}
						}
					})
					wg.Go(func() {
						for {
							r, err := c.next()
							if err != nil {
								return
							}
							if r.Err == 0 && r.Xid > 0 {
								acked[i]++
							}
						}
					})
				}
				if err := <-s.Failed(); !errors.Is(err, crashfs.ErrInjected) {
					t.Errorf("failed with %v", err)
				}
				synctest.Wait()
				late := s.dial(t, dialOptions{})
				late.sendFrame((&jute.ConnectRequest{TimeoutMs: 5000}).Append(nil))
				late.eof("a failed server")
				s.closeWithin(t, shutdownTimeout+time.Second)
				wg.Wait()

				again := startOn(t, fs.Crash(nil), "/data")
				c := again.connect(t)
				for i, n := range acked {
					data, _ := c.get("/n" + strconv.Itoa(i))
					if last, _ := strconv.Atoi(data); last < n {
						t.Errorf("client %d: %d writes were acknowledged, the last that survived is %q", i, n, data)
					}
				}
				t.Logf("acknowledged: %v", acked)
			})
		})
	}
}

// shutdownTimeout is the default of request_throttler.shutdownTimeout.
const shutdownTimeout = 10 * time.Second

// TestCloseDoesNotWaitForAHandshake whose session the failed log will never
// create.
func TestCloseDoesNotWaitForAHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := crashfs.New(3)
		s := startOn(t, fs, "/data")
		fs.SetHook(func(op crashfs.Op) error {
			if op.Kind == crashfs.OpSync {
				return crashfs.ErrInjected
			}
			return nil
		})
		c := s.dial(t, dialOptions{})
		c.sendFrame((&jute.ConnectRequest{TimeoutMs: 5000}).Append(nil))
		<-s.Failed()
		s.closeWithin(t, shutdownTimeout+time.Second)
		c.eof("a connection without an answer")
	})
}

// foreignListener returns an error of another kind when it is closed.
type foreignListener struct{ net.Listener }

func (l foreignListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		err = errors.New("listener has been shut down")
	}
	return nc, err
}

func TestCloseWithAForeignListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, Options{FS: crashfs.New(1), Config: parseConfig(t, "/data")})
		s.Server.opts.Listen = func(string, string) (net.Listener, error) { return foreignListener{s.net}, nil }
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.closeWithin(t, time.Second)
	})
}

// TestServersShareARegistry one after the other as they are, and at the same time
// with labels.
func TestServersShareARegistry(t *testing.T) {
	reg := prometheus.NewRegistry()
	fs := crashfs.New(1)
	options := func(dir string, reg prometheus.Registerer) Options {
		return Options{FS: fs, Config: parseConfig(t, dir), Registerer: reg}
	}
	s := startWith(t, options("/data", reg))
	second := newTestServer(t, options("/data2", reg))
	if err := second.Start(t.Context()); !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		t.Errorf("second server with the same metrics: %v", err)
	}
	count := func(want int) {
		t.Helper()
		families, err := reg.Gather()
		if err != nil {
			t.Error(err)
		}
		n := 0
		for _, f := range families {
			if f.GetName() == "znode_count" || f.GetName() == "zkd_wal_bytes_total" {
				n += len(f.Metric)
			}
		}
		if n != 2*want {
			t.Errorf("%d of the two metrics are shown, want those of %d servers", n, want)
		}
	}
	count(1)
	s.restart(t).Close()
	count(0)
	reg = prometheus.NewRegistry()
	for _, name := range []string{"a", "b"} {
		startWith(t, options("/"+name, prometheus.WrapRegistererWith(prometheus.Labels{"server": name}, reg)))
	}
	count(2)
}

// TestFailedStartCanBeTriedWithAnotherServer checks that a failed start holds no
// resources.
func TestFailedStartCanBeTriedWithAnotherServer(t *testing.T) {
	fs := crashfs.New(1)
	opts := Options{FS: fs, Config: parseConfig(t, "/data"), Registerer: prometheus.NewRegistry()}
	for _, kind := range []crashfs.OpKind{crashfs.OpWrite, crashfs.OpSync} {
		fs.SetHook(func(op crashfs.Op) error {
			if op.Kind == kind {
				return crashfs.ErrInjected
			}
			return nil
		})
		s := newTestServer(t, opts)
		if err := s.Start(t.Context()); !errors.Is(err, crashfs.ErrInjected) {
			t.Errorf("start with a failing %v: %v", kind, err)
		}
		fs.SetHook(nil)
		if err := s.Start(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("second Start of a server: %v", err)
		}
	}
	s := newTestServer(t, opts)
	s.Server.opts.Listen = func(string, string) (net.Listener, error) { return nil, syscall.EADDRINUSE }
	if err := s.Start(t.Context()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("start on a port in use: %v", err)
	}
	startWith(t, opts).connect(t).create("/a", "")
}

// lostDir is a file system whose directories have disappeared.
type lostDir struct{ vfs.FS }

func (lostDir) Space(string) (vfs.Space, error) { return vfs.Space{}, fs.ErrNotExist }

// TestFailureIsToldOnce checks that, also during the start, a failure is reported once,
// and that clients are rejected.
func TestFailureIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startOn(t, lostDir{crashfs.New(1)}, "/data")
		if err := <-s.Failed(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("failed with %v", err)
		}
		c := s.dial(t, dialOptions{})
		c.sendFrame((&jute.ConnectRequest{TimeoutMs: 5000}).Append(nil))
		c.eof("a failed server")
		time.Sleep(time.Minute) // of the bubble: the disk is checked again
		if n := s.logged.FilterLevelExact(zap.ErrorLevel).Len(); n != 1 {
			t.Errorf("%d errors were logged, want 1", n)
		}
		select {
		case err := <-s.Failed():
			t.Errorf("failed again with %v", err)
		default:
		}
	})
}

// TestNothingRunsAfterAFailedStart: the links to other servers are begun last, and when that fails what runs
// already ends.
func TestNothingRunsAfterAFailedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.disks[1] = crashfs.New(1)
		e.tune = func(s *Server) {
			s.registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "zkd_peer_up", Help: "of somebody else"}))
		}
		if _, err := e.tryStart(1); err == nil {
			t.Error("it starts with a metric that it can't register")
		}
	})
}
