package vfs

import (
	"os"
	"syscall"
)

func fdatasync(f *os.File) error {
	return retryEINTR(func() error { return syscall.Fdatasync(int(f.Fd())) })
}
