//go:build unix

package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/child"
)

// guardCommand is the first argument of a guard.
const guardCommand = "--guard-of-a-program"

// guardOrders is the guard's end of the pipe from zkcli.
const guardOrders = 3

// guardOf returns the path and the arguments of the guard of a program. group is the process
// group that the program joins; 0 is the guard's.
func guardOf(cmd *exec.Cmd, grace time.Duration, group int) (path string, args []string, err error) {
	path, err = ownPath()
	// killall zkcli, or pkill -f zkcli, does not mean the guard.
	args = []string{guardName, guardCommand, grace.String(), strconv.Itoa(group), cmd.Path}
	return path, append(args, cmd.Args...), err
}

const guardName = "lock-guard"

// guard is a process between zkcli and the program that runs under a lock. The program must
// not outlive zkcli, which may be killed at any time. zkcli writes signals for the program
// into a pipe, one byte each. When the pipe ends, zkcli is dead, and the guard ends the
// program. If the guard dies, zkcli ends the program; if both die at once, Linux kills it.
type guard struct {
	grace   time.Duration
	group   int // that the program joins; 0 is the guard's own
	program exec.Cmd
	alone   atomic.Bool // zkcli is dead
}

// runGuard is the guard's main function. It returns the exit code: that of the program.
func runGuard(args []string) int {
	g, err := parseGuard(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUsage
	}
	syscall.CloseOnExec(guardOrders)
	catch(make(chan os.Signal, 1), // what is sent to the group is meant for the program
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
	hideName()
	runtime.LockOSThread() // the program ends with the thread that started it
	if err := g.program.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "can't run %s: %v\n", g.program.Args[0], errors.Unwrap(err))
		return exitCantRun
	}
	go g.obey(os.NewFile(guardOrders, "orders"))
	err = g.program.Wait()
	if g.alone.Load() {
		_ = g.send(syscall.SIGKILL) // what the program has left, and this process
	}
	if g.program.ProcessState == nil {
		fmt.Fprintf(os.Stderr, "wait for %s: %v\n", g.program.Args[0], err)
		return exitError
	}
	return exitCodeOf(g.program.ProcessState)
}

// parseGuard reads the arguments that guardOf has written.
func parseGuard(args []string) (*guard, error) {
	if len(args) < 4 {
		return nil, fmt.Errorf("%s is for zkcli's own use", guardCommand)
	}
	grace, err := time.ParseDuration(args[0])
	group, e := strconv.Atoi(args[1])
	g := &guard{grace: grace, group: group}
	g.program = exec.Cmd{Path: args[2], Args: args[3:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	g.program.SysProcAttr = child.EndsWithParent()
	if group != 0 {
		g.program.SysProcAttr.Setpgid, g.program.SysProcAttr.Pgid = true, group
	}
	return g, errors.Join(err, e)
}

// obey sends the program the signals that zkcli orders, and ends it when zkcli has died.
func (g *guard) obey(orders io.Reader) {
	var kill *time.Timer
	one := make([]byte, 1)
	for {
		_, err := io.ReadFull(orders, one)
		s := syscall.Signal(one[0])
		if err != nil {
			g.alone.Store(true)
			s = syscall.SIGTERM
		}
		if ends(s) && kill == nil {
			kill = time.AfterFunc(g.grace, func() { _ = g.send(syscall.SIGKILL) })
		}
		_ = g.send(s) // the program may have ended
		if err != nil {
			return
		}
	}
}

// send sends a signal to the program and all that it has started, or at a terminal to the
// program.
func (g *guard) send(s syscall.Signal) error {
	if g.group == 0 {
		return syscall.Kill(0, s)
	}
	return g.program.Process.Signal(s)
}
