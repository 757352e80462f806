package ptytest

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// patience is how long a test waits for the expected screen. It only ends tests that fail.
const patience = 5 * time.Minute

// Terminal runs a program on a Screen.
type Terminal struct {
	t    testing.TB
	cmd  *exec.Cmd
	pty  *os.File
	done chan struct{} // closed when the program has ended and all is on the screen

	mu      sync.Mutex
	screen  *Screen
	all     []byte        // the program's output
	changed chan struct{} // closed and replaced when the screen changes
}

// Start runs a command on a terminal of the given size. It ends with the test.
func Start(t testing.TB, cmd *exec.Cmd, width, height int, wide func(rune) bool) *Terminal {
	t.Helper()
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)})
	if err != nil {
		t.Fatalf("start %s on a terminal: %v", cmd.Path, err)
	}
	term := &Terminal{
		t: t, cmd: cmd, pty: f, done: make(chan struct{}), screen: NewScreen(width, height, wide), changed: make(chan struct{}),
	}
	go term.read()
	t.Cleanup(term.end)
	return term
}

func (t *Terminal) read() {
	defer close(t.done)
	buf := make([]byte, 4096)
	for {
		n, err := t.pty.Read(buf)
		t.show(buf[:n])
		if err != nil {
			return // the program has closed the terminal
		}
	}
}

// show puts the program's output on the screen. The test fails on an unknown sequence.
func (t *Terminal) show(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() {
		if why := recover(); why != nil {
			t.t.Errorf("%v", why)
		}
	}()
	t.all = append(t.all, p...)
	close(t.changed)
	t.changed = make(chan struct{})
	_, _ = t.screen.Write(p) // it returns no error
}

func (t *Terminal) end() {
	_ = t.cmd.Process.Kill() // it may have ended
	_ = t.cmd.Wait()
	_ = t.pty.Close()
	<-t.done
}

// Type types text. Enter is \r.
func (t *Terminal) Type(keys string) {
	t.t.Helper()
	if _, err := t.pty.WriteString(keys); err != nil {
		t.t.Fatalf("type %q: %v", keys, err)
	}
}

// Signal sends a signal to the program.
func (t *Terminal) Signal(s syscall.Signal) {
	t.t.Helper()
	if err := t.cmd.Process.Signal(s); err != nil {
		t.t.Fatalf("signal %v: %v", s, err)
	}
}

// Resize changes the size and notifies the program.
func (t *Terminal) Resize(width, height int) {
	t.t.Helper()
	t.mu.Lock()
	t.screen.Resize(width, height)
	t.mu.Unlock()
	if err := pty.Setsize(t.pty, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)}); err != nil {
		t.t.Fatalf("resize: %v", err)
	}
}

// Wait waits until ok returns true for the screen. If that does not happen, the test fails
// and prints the screen.
func (t *Terminal) Wait(what string, ok func(s *Screen) bool) {
	t.t.Helper()
	deadline := time.After(patience)
	for {
		t.mu.Lock()
		changed, good, seen := t.changed, ok(t.screen), t.screen.String()
		t.mu.Unlock()
		if good {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.t.Fatalf("the screen does not show %s:\n%s", what, seen)
		}
	}
}

// WaitLine waits until the line with the cursor is this, with the cursor after it. Blanks at
// the end of a line are not visible, but the cursor is.
func (t *Terminal) WaitLine(want string) {
	t.t.Helper()
	t.Wait("the line "+want, func(s *Screen) bool {
		line, col := s.Line()
		return line == strings.TrimRight(want, " ") && (col == s.columns(want) || col == s.width-1)
	})
}

func (s *Screen) columns(text string) int {
	n := 0
	for _, r := range text {
		n++
		if s.wide(r) {
			n++
		}
	}
	return n
}

// WaitEnd waits until the screen's last lines are these.
func (t *Terminal) WaitEnd(want ...string) {
	t.t.Helper()
	end := "\n" + strings.TrimRight(strings.Join(want, "\n"), " \n")
	t.Wait("at its end"+end, func(s *Screen) bool { return strings.HasSuffix("\n"+s.String(), end) })
}

// View calls fn with the screen, which it must not keep.
func (t *Terminal) View(fn func(s *Screen)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fn(t.screen)
}

// Written returns all output of the program so far, as the terminal got it.
func (t *Terminal) Written() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.all)
}

// WaitExit waits until the program ends, and returns its exit code.
func (t *Terminal) WaitExit() int {
	t.t.Helper()
	select {
	case <-t.done:
	case <-time.After(patience):
		t.t.Fatal("the program does not end")
	}
	_ = t.cmd.Wait() // the exit code has the result
	return t.cmd.ProcessState.ExitCode()
}
