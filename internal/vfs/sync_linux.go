package vfs

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func fdatasync(f *os.File) error {
	return retryEINTR(func() error { return syscall.Fdatasync(int(f.Fd())) })
}

// orphaned asks for a lease, which the kernel grants only for a file that is open once (fcntl(2), F_SETLEASE).
func orphaned(f *os.File) bool {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Nlink > 0 {
		return false
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false
	}
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return err == nil
}
