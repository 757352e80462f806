package main

import (
	"os"
	"runtime"
	"strings"

	"go.uber.org/zap"
)

// otherThreads are those that a server can need besides one for each place in which goroutines run: of Go,
// and for files that are read and written at the same time. The connections of clients need none.
const otherThreads = 32

// warnOfThreads warns if the process may have fewer threads than it can need. Go ends a process to which the
// system gives no thread, and nothing can catch that.
func warnOfThreads(log *zap.Logger) {
	most, source := threadLimit(os.Geteuid() == 0, readText)
	if need := threadsNeeded(); most > 0 && most < need {
		log.Warn("the limit of threads is too low: at it, the process ends with all its sessions; raise it (TasksMax= or LimitNPROC= of a systemd unit, --pids-limit of a container, ulimit -u)",
			zap.Int64("limit", most), zap.String("limit_from", source), zap.Int64("needed", need))
	}
}

// threadLimit returns the least limit of threads, and where it is from: that of the control groups, and that of
// the user, which does not hold for root. 0 is no limit.
func threadLimit(root bool, read func(name string) (string, error)) (most int64, source string) {
	const limits = "/proc/self/limits"
	most, source = cgroupLimit(threadsController, read)
	if text, err := read(limits); err == nil && !root {
		if n := ofUser(text); n > 0 && (most == 0 || n < most) {
			most, source = n, limits
		}
	}
	return most, source
}

// ofUser returns the number of processes and threads that the user may have, from the text of /proc/self/limits.
func ofUser(text string) int64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "Max processes"); ok {
			soft, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			return limitOf(soft)
		}
	}
	return 0
}

// threadsNeeded returns how many threads there may be at a time.
func threadsNeeded() int64 { return int64(runtime.GOMAXPROCS(0) + otherThreads) }

// readText reads a file.
func readText(name string) (string, error) {
	b, err := os.ReadFile(name)
	return string(b), err
}
