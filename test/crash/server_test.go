package crash

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
	"github.com/zkd-project/zkd/internal/ask"
	"github.com/zkd-project/zkd/internal/testing/freeport"
	"github.com/zkd-project/zkd/jute"
)

// patience bounds every wait for something that must happen. It is long: only
// a failing test waits for it.
const patience = 60 * time.Second

// server is a zkd with a configuration and a data directory, which is started
// and ended many times.
type server struct {
	t    testing.TB
	dir  string // of zoo.cfg, the log file and, unless configured elsewhere, the data
	data string
	addr string

	lines []string // of zoo.cfg, beyond what each server has
	args  []string // beyond the configuration file

	wrapper []string // put before the command, such as a shell that sets limits
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the process is gone
	begun   int64         // length of the log when the process started
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
	if err := os.CopyFS(c.data, os.DirFS(s.data)); err != nil {
		t.Fatal(err)
	}
	return c
}

func newServerIn(t testing.TB, dir, data string, lines ...string) *server {
	t.Helper()
	s := &server{t: t, dir: dir, data: data, addr: fmt.Sprintf("127.0.0.1:%d", freeport.For(t, 1)[0]), lines: lines}
	_, port, _ := net.SplitHostPort(s.addr)
	cfg := append([]string{
		"dataDir=" + data,
		"clientPortAddress=127.0.0.1",
		"clientPort=" + port,
		"4lw.commands.whitelist=*",
	}, lines...)
	if err := os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte(strings.Join(cfg, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		s.checkLog()
		if t.Failed() {
			t.Logf("end of the server's log:\n%s", tail(s.log(), 6000))
		}
	})
	return s
}

func (s *server) logFile() string { return filepath.Join(s.dir, "log") }

// launch starts the process and does not wait for anything.
func (s *server) launch() {
	s.t.Helper()
	if s.running() {
		s.t.Fatal("the test starts a server that runs")
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		s.t.Fatal(err)
	}
	s.begun = info.Size()
	argv := append(append([]string{}, s.wrapper...), program, filepath.Join(s.dir, "zoo.cfg"))
	argv = append(argv, s.args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.exited = cmd, make(chan struct{})
	go func(exited chan struct{}) {
		cmd.Wait() // how it ended is in cmd.ProcessState
		close(exited)
	}(s.exited)
}

// start starts the process and returns when it serves.
func (s *server) start() {
	s.t.Helper()
	s.launch()
	s.awaitServing()
}

func (s *server) awaitServing() {
	s.t.Helper()
	var last error
	if !s.poll(func() bool {
		var answer string
		answer, last = ask.Within(patience, s.addr, "ruok")
		return answer == "imok"
	}) {
		s.t.Fatalf("server does not serve (%v); its log:\n%s", last, tail(s.logNow(), 4000))
	}
}

// poll asks until done says yes or the process is gone.
func (s *server) poll(done func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-s.exited:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// running reports whether there is a process.
func (s *server) running() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// signal sends a signal, unless the process has just ended.
func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatalf("signal %v: %v", sig, err)
	}
}

// kill ends the process as kill -9 does and returns when it is gone.
func (s *server) kill() {
	if s.running() {
		s.signal(syscall.SIGKILL)
		<-s.exited
	}
}

// awaitExit returns the exit code of a process that ends by itself.
func (s *server) awaitExit() int {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.signal(syscall.SIGQUIT)
		<-s.exited
		s.t.Fatalf("server has not ended; its log:\n%s", tail(s.logNow(), 20000))
	}
	return s.cmd.ProcessState.ExitCode()
}

// stop ends the process by SIGTERM, which must succeed.
func (s *server) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	if code := s.awaitExit(); code != 0 {
		s.t.Errorf("exit code after SIGTERM is %d; log:\n%s", code, tail(s.logNow(), 4000))
	}
}

// refuses starts a process that must end by itself with an error, and returns
// what it says.
func (s *server) refuses() string {
	s.t.Helper()
	s.launch()
	if code := s.awaitExit(); code == 0 {
		s.t.Errorf("server ends with exit code 0, want a failure; log:\n%s", s.logNow())
	}
	return s.logNow()
}

// log returns all that the server's processes have written.
func (s *server) log() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Error(err)
	}
	return string(b)
}

// logNow returns what the last process has written.
func (s *server) logNow() string {
	log := s.log()
	return log[min(int(s.begun), len(log)):]
}

// never is what no server may ever write.
var never = regexp.MustCompile(`panic|DATA RACE|fatal error|goroutine \d+ \[|report this|SIGSEGV|SIGBUS`)

// checkLog looks for signs of trouble that the clients may not have seen.
func (s *server) checkLog() {
	log := s.log()
	if at := never.FindStringIndex(log); at != nil {
		s.t.Errorf("the server's log has %q:\n%s", log[at[0]:at[1]], log[max(0, at[0]-500):min(len(log), at[1]+4000)])
	}
}

// rss returns the resident bytes of the process.
func (s *server) rss() int64 {
	s.t.Helper()
	n, err := bench.ProcessRSS(s.cmd.Process.Pid)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// peak watches the resident bytes of the process until stop, which returns the
// largest seen.
func (s *server) peak() (stop func() int64) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	var most int64
	pid := s.cmd.Process.Pid
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
	s.t.Helper()
	c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 60_000})
	if err != nil {
		s.t.Fatalf("connect: %v; the server's log:\n%s", err, tail(s.logNow(), 4000))
	}
	s.t.Cleanup(c.close)
	return c
}

func tail(s string, n int) string {
	if len(s) > n {
		return fmt.Sprintf("... (%d bytes before)\n%s", len(s)-n, s[len(s)-n:])
	}
	return s
}
