package main

import (
	"os"
	"runtime"
)

// tuneScheduler suits Go's scheduler to a program that spends its time in
// fdatasync. A goroutine in a system call keeps one of the GOMAXPROCS places in
// which goroutines run, until the runtime's watchdog takes it away; and as long as
// any place is taken, the watchdog looks every 20 us. For a lone write of an
// ensemble that made half of all its context switches and a fourth of its CPU time.
//
// So the watchdog's sleeps are made longer; and since it then comes later to the
// place that the log writer keeps, there is one place more than processors.
// GOMAXPROCS in the environment means that the operator has decided on those.
func tuneScheduler() {
	relaxTimers()
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}
