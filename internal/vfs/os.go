package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// OS is the file system of the operating system.
type OS struct{}

var _ FS = OS{}

// Open implements FS.
func (OS) Open(name string) (File, error) { return openOS(name, os.O_RDONLY, 0) }

// Create implements FS.
func (OS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
}

// OpenFile implements FS.
func (OS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	return openOS(name, flag, perm)
}

// openOS keeps a nil *os.File from becoming a File that is not nil.
func openOS(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Stat implements FS.
func (OS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// Rename implements FS.
func (OS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// ReadDir implements FS.
func (OS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// MkdirAll implements FS.
func (o OS) MkdirAll(name string) error {
	name = filepath.Clean(name)
	if info, err := os.Stat(name); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
		}
		return nil
	}
	parent := filepath.Dir(name)
	if parent != name {
		if err := o.MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.SyncDir(parent)
}

// RealPath implements FS.
func (OS) RealPath(name string) (string, error) {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(name)
}

// SyncDir implements FS.
func (OS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// OpenDir implements FS.
func (OS) OpenDir(name string) (Dir, error) {
	d, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Lock implements FS. The file holds the process id of the owner, for people to read.
func (OS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		var pid [32]byte
		n, _ := f.ReadAt(pid[:], 0)
		_ = f.Close() // nothing was written
		if !errors.Is(err, errWouldBlock) {
			return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
		}
		owner := strings.TrimSpace(string(pid[:n]))
		return nil, fmt.Errorf("lock %s: %w (pid %s)", name, ErrLocked, owner)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil && !isNoSpace(err) { // a full disk must not keep a server from starting
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Space implements FS.
func (OS) Space(name string) (Space, error) {
	s, err := statSpace(name)
	if err != nil {
		return Space{}, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return s, nil
}

// osFile implements File.
type osFile struct{ *os.File }

func (f osFile) SyncData() error {
	if err := fdatasync(f.File); err != nil {
		return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

func (f osFile) Orphaned() bool { return orphaned(f.File) }
