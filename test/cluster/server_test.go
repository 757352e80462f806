package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/ask"
	"github.com/zkd-project/zkd/internal/testing/freeport"
)

// server is one member of an ensemble: a configuration, a data directory, and
// processes that come and go.
type server struct {
	t    testing.TB
	id   int
	dir  string // of zoo.cfg and the log file
	data string
	ports
	other    ports // that it moves to
	observer bool

	program string   // "" means the program under test
	wrapper []string // put before the command
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the process is gone
	paused  bool
	begun   int64 // length of the log when the process started
}

// ports are where a server listens.
type ports struct {
	addr     string // for clients
	quorum   int    // port for other servers
	election int    // likewise
}

func newPorts(list []int) ports {
	return ports{"127.0.0.1:" + strconv.Itoa(list[0]), list[1], list[2]}
}

// newServer prepares a server without a configuration. data is its data
// directory.
func newServer(t testing.TB, id int, dir, data string) *server {
	t.Helper()
	for _, d := range []string{dir, data} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	free := freeport.For(t, 6)
	return &server{t: t, id: id, dir: dir, data: data, ports: newPorts(free[:3]), other: newPorts(free[3:])}
}

// configure writes zoo.cfg and myid.
func (s *server) configure(lines []string) {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.addr)
	cfg := append([]string{
		"dataDir=" + s.data,
		"clientPortAddress=127.0.0.1",
		"clientPort=" + port,
		"4lw.commands.whitelist=*",
		"admin.enableServer=false",
	}, lines...)
	s.write(filepath.Join(s.dir, "zoo.cfg"), strings.Join(cfg, "\n")+"\n")
	s.identify(s.id)
}

// identify writes the file myid.
func (s *server) identify(id int) {
	s.t.Helper()
	s.write(filepath.Join(s.data, "myid"), strconv.Itoa(id)+"\n")
}

func (s *server) write(file, text string) {
	s.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) logFile() string { return filepath.Join(s.dir, "log") }

func (s *server) command() []string {
	cfg := filepath.Join(s.dir, "zoo.cfg")
	if apache() {
		classPath := "/etc/zookeeper/conf:/usr/share/java/zookeeper.jar"
		if dir := os.Getenv("ZOOKEEPER39"); dir != "" {
			classPath = filepath.Join(dir, "lib", "*")
		}
		return []string{"java", "-Xmx256m", "-Dzookeeper.root.logger=INFO,CONSOLE", "-cp", classPath,
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", cfg}
	}
	if *previous != "" && s.id%3 == 0 {
		return []string{*previous, cfg}
	}
	return []string{cmp.Or(s.program, program), cfg}
}

// start starts the process and does not wait for anything.
func (s *server) start() {
	s.t.Helper()
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
	argv := append(append([]string{}, s.wrapper...), s.command()...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.SysProcAttr = bound()
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.exited = cmd, make(chan struct{})
	go func(exited chan struct{}) {
		cmd.Wait() // how it ended is in cmd.ProcessState
		close(exited)
	}(s.exited)
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
		s.t.Fatalf("server %d: signal %v: %v", s.id, sig, err)
	}
}

// kill ends the process as kill -9 does and returns when it is gone.
func (s *server) kill() {
	if s.running() {
		s.signal(syscall.SIGKILL)
		<-s.exited
	}
	s.paused = false
}

func (s *server) pause() {
	s.signal(syscall.SIGSTOP)
	s.paused = true
}

func (s *server) resume() {
	if s.paused && s.running() {
		s.signal(syscall.SIGCONT)
	}
	s.paused = false
}

// stop ends the process by SIGTERM, which must succeed.
func (s *server) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	if code := s.awaitExit(); code != 0 && !apache() {
		s.t.Errorf("server %d: exit code after SIGTERM is %d; log:\n%s", s.id, code, tail(s.logNow(), 4000))
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
		s.t.Fatalf("server %d has not ended; its log:\n%s", s.id, tail(s.logNow(), 20000))
	}
	return s.cmd.ProcessState.ExitCode()
}

// mode returns what the word srvr tells of the role: leader, follower, observer,
// standalone, or nothing if the server does not serve.
func (s *server) mode() string {
	if !s.running() || s.paused {
		return ""
	}
	text, err := ask.Within(answerTime, s.addr, "srvr")
	if err != nil {
		return ""
	}
	return ask.Mode(text)
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
	if apache() {
		return
	}
	log := s.log()
	if at := never.FindStringIndex(log); at != nil {
		s.t.Errorf("the log of server %d has %q:\n%s", s.id, log[at[0]:at[1]], log[max(0, at[0]-500):min(len(log), at[1]+4000)])
	}
}

func tail(s string, n int) string {
	if len(s) > n {
		return fmt.Sprintf("... (%d bytes before)\n%s", len(s)-n, s[len(s)-n:])
	}
	return s
}
