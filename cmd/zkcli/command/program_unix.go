//go:build unix

package command

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/console"
)

// runProgram runs a program under a guard: see guard. When the command's context ends, the
// program gets SIGTERM and, if it still runs after the grace period, SIGKILL. So do all
// processes that it has started, because they must not outlive the lock: it has a process
// group with the guard. At a terminal it shares zkcli's group, so that it can read, and gets
// the Ctrl-C directly.
func runProgram(cmd *exec.Cmd, grace time.Duration) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer write.Close()
	group := 0
	if console.Is(cmd.Stdin) {
		group = syscall.Getpgrp()
	}
	cmd.Path, cmd.Args, err = guardOf(cmd, grace, group)
	if err != nil {
		return errors.Join(err, read.Close())
	}
	cmd.ExtraFiles = []*os.File{read} // see guardOrders
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g := &guarded{orders: write}
	cmd.Cancel = func() error { return g.order(syscall.SIGTERM) }
	cmd.WaitDelay = grace + time.Second
	defer g.passSignals()()
	err = cmd.Start()
	if e := read.Close(); err != nil || e != nil {
		return errors.Join(err, e)
	}
	err = cmd.Wait()
	if !g.ending.Load() && cmd.ProcessState.Exited() {
		return err
	}
	// The program had to end, or somebody has killed the guard: end the rest of the group.
	if e := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); e != nil && !errors.Is(e, syscall.ESRCH) {
		return errors.Join(err, e)
	}
	return err
}

// guarded is a program that runs under a guard.
type guarded struct {
	orders *os.File
	ending atomic.Bool // whether it was sent a signal that ends it
}

// order tells the guard to send the program a signal.
func (g *guarded) order(s syscall.Signal) error {
	if ends(s) {
		g.ending.Store(true)
	}
	_, err := g.orders.Write([]byte{byte(s)})
	if errors.Is(err, syscall.EPIPE) {
		return os.ErrProcessDone
	}
	return err
}

// passSignals passes signals to zkcli on to the program, until stop is called. Those that end
// the command's context are not among them.
func (g *guarded) passSignals() (stop func()) {
	signals := make(chan os.Signal, 8)
	catch(signals, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := range signals {
			_ = g.order(s.(syscall.Signal)) // the program may have ended
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

// catch is signal.Notify that leaves signals ignored that the parent process wants ignored,
// as nohup does.
func catch(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// ends reports whether a program must end after the signal: it is killed after the grace period.
func ends(s syscall.Signal) bool {
	switch s {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT:
		return true
	}
	return false
}

// exitCodeOf returns the exit code as shells do: 128 plus the signal for a killed program.
func exitCodeOf(p *os.ProcessState) int {
	if status, ok := p.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.ExitCode()
}
