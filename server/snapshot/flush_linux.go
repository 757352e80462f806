package snapshot

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushPages waits for what it sent to the disk the last time, and sends what
// has become dirty since, without waiting for it. Unlike fdatasync it writes no
// metadata and flushes no disk cache, so the fsync of the log does not queue
// behind it; durability comes with the Sync at the end.
func flushPages(f *os.File) error {
	const flags = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE
	for {
		err := unix.SyncFileRange(int(f.Fd()), 0, 0, flags)
		switch err {
		case unix.EINTR:
			continue
		case unix.ENOSYS, unix.EINVAL, unix.ESPIPE: // a file system without it
			return f.Sync()
		}
		return err
	}
}
