//go:build unix

package vfs

import (
	"errors"
	"os"
	"syscall"
)

const errWouldBlock = syscall.EWOULDBLOCK

func isNoSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) }

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
	block := int64(st.Bsize)
	return Space{Total: int64(st.Blocks) * block, Free: int64(st.Bavail) * block}, nil
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
