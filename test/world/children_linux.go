package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// maxRSS is the most memory that a process had.
func maxRSS(s *os.ProcessState) int64 { return s.SysUsage().(*syscall.Rusage).Maxrss << 10 }

const setChildSubreaper = 36 // of prctl

// adoptOrphans makes this process the parent of all descendants whose own parent has ended.
func adoptOrphans() error {
	if _, _, err := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); err != 0 {
		return fmt.Errorf("prctl: %w", err)
	}
	return nil
}

// endWithChildren has the end of a command's context end its whole group.
func endWithChildren(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// killDescendants ends all processes that descend from this one, whatever groups and sessions they
// made, and returns how many there were.
func killDescendants() int {
	found := 0
	for {
		pids := descendants()
		if len(pids) == 0 {
			return found
		}
		for _, pid := range pids {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				found++
			}
			var status syscall.WaitStatus
			syscall.Wait4(pid, &status, 0, nil) // if it is a child
		}
	}
}

// descendants returns the processes below this one, but for those that have ended.
func descendants() []int {
	children := make(map[int][]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent ...": the name may have anything in it.
		rest := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if parent, parentErr := strconv.Atoi(rest[1]); err == nil && parentErr == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	var all []int
	for next := children[os.Getpid()]; len(next) > 0; next = next[1:] {
		all = append(all, next[0])
		next = append(next, children[next[0]]...)
	}
	return all
}
