package main

import (
	"os"
	"runtime"

	"go.uber.org/zap"
)

// otherThreads are those that a server can need besides one for each place in which goroutines run: of Go,
// and for files that are read and written at the same time. The connections of clients need none.
const otherThreads = 32

// warnOfThreads warns if the control groups of the process allow fewer threads than it can need. Go ends a
// process to which the system gives no thread, and nothing can catch that.
func warnOfThreads(log *zap.Logger) {
	most, source := cgroupLimit(threadsController, readText)
	if need := threadsNeeded(); most > 0 && most < need {
		log.Warn("the limit of threads is too low: at it, the process ends with all its sessions; raise it (TasksMax= of a systemd unit, --pids-limit of a container)",
			zap.Int64("limit", most), zap.String("limit_from", source), zap.Int64("needed", need))
	}
}

// threadsNeeded returns how many threads there may be at a time.
func threadsNeeded() int64 { return int64(runtime.GOMAXPROCS(0) + otherThreads) }

// readText reads a file.
func readText(name string) (string, error) {
	b, err := os.ReadFile(name)
	return string(b), err
}
