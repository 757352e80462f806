//go:build !unix

package vfs

import (
	"errors"
	"os"
)

// Other systems serve programs that read and write whole files. A server does not run there:
// it can't lock its directories.

var errWouldBlock = errors.ErrUnsupported

func isNoSpace(error) bool { return false }

// IsShortage reports whether an operation failed for want of something that may be free again
// later.
func IsShortage(error) bool { return false }

func flock(*os.File) error { return errors.ErrUnsupported }

func statSpace(string) (Space, error) { return Space{}, errors.ErrUnsupported }

// CopyMode implements FS.
func (OS) CopyMode(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	return os.Chmod(to, info.Mode().Perm())
}
