//go:build unix

package command

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/console"
)

// runProgram runs a program. When the command's context ends it gets SIGTERM and,
// if it is there after the grace, SIGKILL. So does all that it has started, which
// must not outlive the lock: it has a process group of its own. Not so at a
// terminal, where it shares ours to be able to read, and gets the Ctrl-C by itself.
func runProgram(cmd *exec.Cmd, grace time.Duration) error {
	group := !console.Is(cmd.Stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: group}
	signal := func(s syscall.Signal) error {
		if group {
			return syscall.Kill(-cmd.Process.Pid, s)
		}
		return cmd.Process.Signal(s)
	}
	var kill *time.Timer
	cmd.Cancel = func() error {
		kill = time.AfterFunc(grace, func() { _ = signal(syscall.SIGKILL) }) // it may be gone
		return signal(syscall.SIGTERM)
	}
	cmd.WaitDelay = grace + time.Second
	err := cmd.Run()
	if kill == nil {
		return err
	}
	kill.Stop()
	if e := signal(syscall.SIGKILL); e != nil && !errors.Is(e, syscall.ESRCH) && !errors.Is(e, os.ErrProcessDone) {
		return errors.Join(err, e) // what is left of the group
	}
	return err
}

// exitCodeOf is the exit code as shells have it: 128 and the signal, of a program
// that was killed.
func exitCodeOf(p *os.ProcessState) int {
	if status, ok := p.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.ExitCode()
}
