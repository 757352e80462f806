package main

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	// timerSlack is how much later than asked the kernel may wake a thread that
	// sleeps. It is meant for the runtime's watchdog. What the server itself waits for
	// is not so exact: the shortest of its ticks is 20 ms.
	timerSlack = 500 * time.Microsecond
	// usualSlack is what a process has unless somebody has decided on it, such as
	// TimerSlackNSec= of systemd.
	usualSlack = 50 * time.Microsecond
	// relaxed is in the environment of a process that relaxTimers has begun anew, so
	// that it happens once, whatever a sandbox does with prctl.
	relaxed = "ZKD_TIMERS_RELAXED"
)

// relaxTimers gives the process its timer slack. A thread takes that of the thread
// which starts it, and the watchdog is started before main: so the process begins
// anew, with the same id, arguments and standard files, which takes milliseconds.
// Where that is not possible the server needs more CPU, and that is all.
func relaxTimers() {
	if os.Getenv(relaxed) != "" {
		_ = os.Unsetenv(relaxed) // fails only for names that are none
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
