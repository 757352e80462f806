package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
	"github.com/zkd-project/zkd/internal/ask"
	"github.com/zkd-project/zkd/internal/testing/freeport"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// server is a zkd without an ensemble.
type server struct {
	process.Process
	addr  string
	lines []string // of zoo.cfg, beyond what each server has
	args  []string // beyond the configuration file
}

// newServer makes a server that is not started. lines are added to its zoo.cfg.
func newServer(t testing.TB, lines ...string) *server {
	t.Helper()
	dir := t.TempDir()
	return newServerIn(t, dir, filepath.Join(dir, "data"), lines...)
}

// copy makes another server with what s, which does not run, has on its disk.
func (s *server) copy(t testing.TB) *server {
	t.Helper()
	c := newServer(t, s.lines...)
	if err := os.CopyFS(c.Data, os.DirFS(s.Data)); err != nil {
		t.Fatal(err)
	}
	return c
}

func newServerIn(t testing.TB, dir, data string, lines ...string) *server {
	t.Helper()
	s := &server{
		Process: process.Process{T: t, Name: "the server", Dir: dir, Data: data},
		addr:    fmt.Sprintf("127.0.0.1:%d", freeport.For(t, 1)[0]), lines: lines,
	}
	s.Configure(s.addr, lines...)
	t.Cleanup(func() {
		s.Kill()
		s.CheckLog()
		if t.Failed() {
			t.Logf("end of the server's log:\n%s", process.Tail(s.Log(), 6000))
		}
	})
	return s
}

// launch starts the process and does not wait for anything.
func (s *server) launch() {
	s.T.Helper()
	s.Launch(append([]string{*program, s.Config()}, s.args...)...)
}

// start starts the process and returns when it serves.
func (s *server) start() {
	s.T.Helper()
	s.launch()
	var last error
	if !s.Poll(func() bool {
		var answer string
		answer, last = ask.Within(patience, s.addr, "ruok")
		return answer == "imok"
	}) {
		s.T.Fatalf("server does not serve (%v); its log:\n%s", last, process.Tail(s.LogNow(), 4000))
	}
}

// refuses starts a process that must end by itself with an error, and returns
// what it says.
func (s *server) refuses() string {
	s.T.Helper()
	s.launch()
	if code := s.AwaitExit(); code == 0 {
		s.T.Errorf("server ends with exit code 0, want a failure; log:\n%s", s.LogNow())
	}
	return s.LogNow()
}

// rss returns the resident bytes of the process.
func (s *server) rss() int64 {
	s.T.Helper()
	n, err := bench.ProcessRSS(s.ID())
	if err != nil {
		s.T.Fatal(err)
	}
	return n
}

// peak watches the resident bytes of the process until stop, which returns the
// largest seen.
func (s *server) peak() (stop func() int64) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	var most int64
	pid := s.ID()
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			if n, err := bench.ProcessRSS(pid); err == nil {
				most = max(most, n)
			}
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	return func() int64 {
		close(done)
		wg.Wait()
		return most
	}
}

// connect opens a new session with a long timeout.
func (s *server) connect() *client {
	s.T.Helper()
	c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 60_000})
	if err != nil {
		s.T.Fatalf("connect: %v; the server's log:\n%s", err, process.Tail(s.LogNow(), 4000))
	}
	s.T.Cleanup(c.Close)
	return c
}
