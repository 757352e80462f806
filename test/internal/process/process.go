//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/child"
)

// Patience bounds each wait for something that must happen. It is long: only
// a failing test waits for it.
const Patience = 5 * time.Minute

// Run runs the tests of a package with *program: the zkd that it names, or one that is
// built with the flags of go build.
func Run(m *testing.M, program *string, flags string) (code int) {
	dir, err := os.MkdirTemp("", "zkd-processes-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if *program == "" {
		*program = filepath.Join(dir, "zkd")
		args := slices.Concat([]string{"build", "-o", *program}, strings.Fields(flags), []string{"../../cmd/zkd"})
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
	} else if *program, err = filepath.Abs(*program); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Process is a server that is started and ended many times. All its processes
// write to one log file.
type Process struct {
	T    testing.TB
	Name string // in messages
	Dir  string // of zoo.cfg and the log file
	Data string // the data directory

	Wrapper []string // put before the command, such as a shell that sets limits
	Lenient bool     // it may end with an error after SIGTERM

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone
	paused bool
	begun  int64 // length of the log when the process started
}

// Config returns the path of zoo.cfg.
func (p *Process) Config() string { return filepath.Join(p.Dir, "zoo.cfg") }

// Configure writes zoo.cfg: where clients connect, what each server has, and lines.
func (p *Process) Configure(addr string, lines ...string) {
	p.T.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		p.T.Fatal(err)
	}
	p.Write(p.Config(), strings.Join(append([]string{
		"dataDir=" + p.Data,
		"clientPortAddress=" + host,
		"clientPort=" + port,
		"4lw.commands.whitelist=*",
	}, lines...), "\n")+"\n")
}

// Write writes a file.
func (p *Process) Write(file, text string) {
	p.T.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		p.T.Fatal(err)
	}
}

// Launch starts a process and does not wait for anything.
func (p *Process) Launch(command ...string) {
	p.T.Helper()
	if p.Running() {
		p.T.Fatalf("the test starts %s, which runs", p.Name)
	}
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.T.Fatal(err)
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		p.T.Fatal(err)
	}
	p.begun = info.Size()
	argv := append(slices.Clone(p.Wrapper), command...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.Dir, log, log
	cmd.SysProcAttr = child.EndsWithParent()
	if err := cmd.Start(); err != nil {
		p.T.Fatal(err)
	}
	p.cmd, p.exited = cmd, make(chan struct{})
	go func(exited chan struct{}) {
		cmd.Wait() // how it ended is in cmd.ProcessState
		close(exited)
	}(p.exited)
}

// Running reports whether there is a process.
func (p *Process) Running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Paused reports whether the process is stopped by Pause.
func (p *Process) Paused() bool { return p.paused }

// ID returns the number of the last process.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Signal sends a signal, unless the process has just ended.
func (p *Process) Signal(sig syscall.Signal) {
	p.T.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.T.Fatalf("%s: signal %v: %v", p.Name, sig, err)
	}
}

// Kill ends the process as kill -9 does and returns when it is gone.
func (p *Process) Kill() {
	if p.Running() {
		p.Signal(syscall.SIGKILL)
		<-p.exited
	}
	p.paused = false
}

// Pause stops the process until Resume.
func (p *Process) Pause() {
	p.Signal(syscall.SIGSTOP)
	p.paused = true
}

// Resume ends Pause.
func (p *Process) Resume() {
	if p.paused && p.Running() {
		p.Signal(syscall.SIGCONT)
	}
	p.paused = false
}

// Stop ends the process by SIGTERM, which must succeed.
func (p *Process) Stop() {
	p.T.Helper()
	p.Signal(syscall.SIGTERM)
	if code := p.AwaitExit(); code != 0 && !p.Lenient {
		p.T.Errorf("%s: exit code after SIGTERM is %d; log:\n%s", p.Name, code, Tail(p.LogNow(), 4000))
	}
}

// AwaitExit returns the exit code of a process that ends by itself.
func (p *Process) AwaitExit() int {
	p.T.Helper()
	select {
	case <-p.exited:
	case <-time.After(Patience):
		p.Signal(syscall.SIGQUIT) // its stacks are in the log then
		<-time.After(time.Second)
		p.Kill()
		p.T.Fatalf("%s has not ended; its log:\n%s", p.Name, Tail(p.LogNow(), 20000))
	}
	return p.cmd.ProcessState.ExitCode()
}

// Poll asks until done says yes or the process is gone.
func (p *Process) Poll(done func() bool) bool {
	return Poll(func() bool { return done() || !p.Running() }) && p.Running()
}

// Poll asks until done says yes, and returns false if it never does.
func Poll(done func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (p *Process) logFile() string { return filepath.Join(p.Dir, "log") }

// Log returns all that the server's processes have written.
func (p *Process) Log() string {
	b, err := os.ReadFile(p.logFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.T.Error(err)
	}
	return string(b)
}

// LogNow returns what the last process has written.
func (p *Process) LogNow() string {
	log := p.Log()
	return log[min(int(p.begun), len(log)):]
}

// never is what no server may ever write.
var never = regexp.MustCompile(`panic|DATA RACE|fatal error|goroutine \d+ \[|report this|SIGSEGV|SIGBUS`)

// CheckLog looks for signs of trouble that the clients may not have seen.
func (p *Process) CheckLog() {
	log := p.Log()
	if at := never.FindStringIndex(log); at != nil {
		p.T.Errorf("the log of %s has %q:\n%s", p.Name, log[at[0]:at[1]], log[max(0, at[0]-500):min(len(log), at[1]+4000)])
	}
}

// Tail returns the last n bytes of a text.
func Tail(s string, n int) string {
	if len(s) > n {
		return fmt.Sprintf("... (%d bytes before)\n%s", len(s)-n, s[len(s)-n:])
	}
	return s
}
