package main

import (
	"os"
	"runtime"
)

// tuneScheduler adapts Go's scheduler to a program that spends its time in fdatasync. A
// goroutine in a system call keeps one of the GOMAXPROCS slots in which goroutines run,
// until the runtime's watchdog takes it away; and as long as any slot is taken, the
// watchdog checks every 20 us. For a lone write of an ensemble that caused half of all
// its context switches and a fourth of its CPU time.
//
// So the watchdog's sleeps are made longer; and since it then retakes the log writer's
// slot later, there is one slot more than processors. GOMAXPROCS in the environment means
// that the operator has chosen their number.
func tuneScheduler() {
	relaxTimers()
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}
