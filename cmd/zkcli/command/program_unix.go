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

// runProgram runs a program. When the command's context ends, the program gets SIGTERM and,
// if it still runs after the grace period, SIGKILL. So do all processes that it has started,
// because they must not outlive the lock: it has its own process group. At a terminal it
// shares zkcli's group, so that it can read, and gets the Ctrl-C directly.
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
		kill = time.AfterFunc(grace, func() { _ = signal(syscall.SIGKILL) }) // it may have ended
		return signal(syscall.SIGTERM)
	}
	cmd.WaitDelay = grace + time.Second
	err := cmd.Run()
	if kill == nil {
		return err
	}
	kill.Stop()
	if e := signal(syscall.SIGKILL); e != nil && !errors.Is(e, syscall.ESRCH) && !errors.Is(e, os.ErrProcessDone) {
		return errors.Join(err, e) // the rest of the group
	}
	return err
}

// exitCodeOf returns the exit code as shells do: 128 plus the signal for a killed program.
func exitCodeOf(p *os.ProcessState) int {
	if status, ok := p.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.ExitCode()
}
