//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const errWouldBlock = syscall.EWOULDBLOCK

func isNoSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) }

// IsShortage reports whether an operation failed for want of something that may be free again
// later: room or inodes of a file system, file descriptors, memory of the kernel.
func IsShortage(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func flock(f *os.File) error {
	return retryEINTR(func() error {
		return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	})
}

func statSpace(name string) (Space, error) {
	var st syscall.Statfs_t
	if err := retryEINTR(func() error { return syscall.Statfs(name, &st) }); err != nil {
		return Space{}, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return Space{}, err
	}
	var device uint64
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		device = uint64(s.Dev)
	}
	block := int64(st.Bsize)
	return Space{Device: device, Total: int64(st.Blocks) * block, Free: int64(st.Bavail) * block, Inodes: int64(st.Files), FreeInodes: int64(st.Ffree)}, nil
}

// CopyMode implements FS. Only root may change the user of a file, and others may
// only give it a group of their own. What is not allowed stays as it is.
func (OS) CopyMode(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		err = os.Chown(to, int(st.Uid), int(st.Gid))
		if errors.Is(err, fs.ErrPermission) {
			err = os.Chown(to, -1, int(st.Gid))
		}
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return os.Chmod(to, info.Mode().Perm())
}

// retryEINTR calls f until a signal does not interrupt it. An interrupted call
// has done nothing yet, so this is not the forbidden retry of a failed sync.
func retryEINTR(f func() error) error {
	for {
		if err := f(); err != syscall.EINTR {
			return err
		}
	}
}
