package base

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspendedTotal returns how long the machine has been suspended since boot: CLOCK_BOOTTIME is
// ahead of CLOCK_MONOTONIC by that much.
func suspendedTotal() time.Duration {
	best, took := time.Duration(0), time.Duration(-1)
	for range 3 { // the thread may be interrupted between two readings
		before, boot, after := clockTime(unix.CLOCK_MONOTONIC), clockTime(unix.CLOCK_BOOTTIME), clockTime(unix.CLOCK_MONOTONIC)
		if took < 0 || after-before < took {
			best, took = boot-before, after-before
		}
	}
	return best
}

func clockTime(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0 // both clocks exist since Linux 2.6.39
	}
	return time.Duration(t.Nano())
}
