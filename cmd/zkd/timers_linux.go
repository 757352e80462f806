package main

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	// timerSlack is how much later than requested the kernel may wake a sleeping thread.
	// It is meant for the runtime's watchdog. The server's own timers need less
	// precision: the shortest of its ticks is 20 ms.
	timerSlack = 500 * time.Microsecond
	// usualSlack is the slack of a process unless something has set another, such as
	// TimerSlackNSec= of systemd.
	usualSlack = 50 * time.Microsecond
	// relaxed is in the environment of a process that relaxTimers has restarted, so that
	// it happens once, whatever a sandbox does with prctl.
	relaxed = "ZKD_TIMERS_RELAXED"
)

// init keeps main in the process's first thread, for relaxTimers. When another thread executes
// a program, the kernel ends the first one before that, and the process looks like a zombie to
// a supervisor that asks then.
func init() { runtime.LockOSThread() }

// relaxTimers sets the process's timer slack. A thread inherits the slack of the thread
// that starts it, and the watchdog is started before main, so the process executes itself
// again, with the same id, arguments and standard files, which takes milliseconds. Where
// that is not possible, the server only needs more CPU.
func relaxTimers() {
	defer runtime.UnlockOSThread() // init's
	if os.Getenv(relaxed) != "" {
		_ = os.Unsetenv(relaxed) // fails only for invalid names
		return
	}
	path, err := os.Executable()
	if err != nil {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slack() == usualSlack && setSlack(timerSlack) == nil {
		_ = syscall.Exec(path, os.Args, append(os.Environ(), relaxed+"=1")) // returns only if it fails
	}
}

// slack returns the timer slack of this thread, 0 if there is none.
func slack() time.Duration {
	d, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_GET_TIMERSLACK, 0, 0)
	if errno != 0 {
		return 0
	}
	return time.Duration(d)
}

func setSlack(d time.Duration) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_TIMERSLACK, uintptr(d), 0); errno != 0 {
		return errno
	}
	return nil
}
