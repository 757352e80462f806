package server

import (
	"crypto/rand"
	"encoding/binary"
	"os"
	"strings"
	"syscall"
)

// fileDescriptors returns the number of open file descriptors of the process and its
// limit; -1 where the system does not report them.
func fileDescriptors() (open, limit int64) {
	open, limit = -1, -1
	if d, err := os.Open("/proc/self/fd"); err == nil {
		if names, err := d.Readdirnames(-1); err == nil {
			open = int64(len(names)) - 1 // without d itself
		}
		d.Close()
	}
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) == nil {
		limit = int64(r.Cur)
	}
	return open, limit
}

// kernelVersion returns the release of the operating system's kernel, or "" where the
// system does not report it.
func kernelVersion() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// random64 never fails.
func random64() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}
