package process

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// Fill leaves that many bytes free on the disk of a directory.
func Fill(dir string, leave int64) error {
	f, err := os.OpenFile(ballast(dir), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 256<<10); ; {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(dir, &fs); err != nil {
			return err
		}
		free := int64(fs.Bavail) * fs.Bsize
		if free <= leave {
			return nil
		}
		if _, err := f.Write(block[:min(int64(len(block)), free-leave)]); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Empty gives back what Fill has taken.
func Empty(dir string) error { return os.RemoveAll(ballast(dir)) }

func ballast(dir string) string { return filepath.Join(dir, "ballast") }
