package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTicks is the unit of the CPU times in /proc/<pid>/stat: 100 per second
// on all architectures of Linux that Go has.
const clockTicks = 100

// usage is the resources used by processes.
type usage struct {
	cpu time.Duration // user and system time since their start
	rss int64         // resident bytes
}

// processUsage sums up the processes of pids, from /proc.
func processUsage(pids []int) (usage, error) {
	var sum usage
	for _, pid := range pids {
		cpu, err := ProcessCPU(pid)
		if err != nil {
			return usage{}, err
		}
		rss, err := ProcessRSS(pid)
		if err != nil {
			return usage{}, err
		}
		sum.cpu += cpu
		sum.rss += rss
	}
	return sum, nil
}

// ProcessCPU returns the CPU time of a process, exact to 10 ms.
func ProcessCPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read CPU time of process %d: %w", pid, err)
	}
	// The second field is the program's name in brackets, which may contain
	// anything; utime and stime are the 14th and 15th.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("read CPU time of process %d: %d fields in /proc/%d/stat", pid, len(fields), pid)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read CPU time of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / clockTicks, nil
}

// ProcessRSS returns the resident bytes of a process on this machine, file
// mappings included.
func ProcessRSS(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read RSS of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read RSS of process %d: %w", pid, err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("read RSS of process %d: no VmRSS in /proc/%d/status", pid, pid)
}

// ownCPU returns the CPU time of this process.
func ownCPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(fmt.Sprintf("getrusage: %v", err)) // can't fail with these arguments
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
