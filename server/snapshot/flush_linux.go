package snapshot

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushPages waits for the pages that its previous call sent to the disk, and sends the
// pages that have become dirty since, without waiting. Unlike fdatasync it writes no
// metadata and flushes no disk cache, so the fsync of the log does not queue up after it.
// The Sync at the end makes the file durable.
func flushPages(f *os.File) error {
	const flags = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE
	for {
		err := unix.SyncFileRange(int(f.Fd()), 0, 0, flags)
		switch err {
		case unix.EINTR:
			continue
		case unix.ENOSYS, unix.EINVAL, unix.ESPIPE: // not supported by the file system
			return f.Sync()
		}
		return err
	}
}
