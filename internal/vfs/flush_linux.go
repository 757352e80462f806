package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush writes no metadata and flushes no disk cache, unlike fdatasync.
func flush(f *os.File) error {
	const flags = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE
	err := retryEINTR(func() error { return unix.SyncFileRange(int(f.Fd()), 0, 0, flags) })
	switch err {
	case unix.ENOSYS, unix.EINVAL, unix.ESPIPE: // not supported by the file system
		return f.Sync()
	}
	return err
}
