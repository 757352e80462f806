// Package fastfs is a file system for tests that make no power cuts: it never waits for the disk.
package fastfs

import (
	"io/fs"

	"github.com/zkd-project/zkd/internal/vfs"
)

// FS is the operating system's files without waiting for the disk.
type FS struct{ vfs.OS }

type file struct{ vfs.File }

func (file) Sync() error     { return nil }
func (file) SyncData() error { return nil }

func (FS) SyncDir(string) error { return nil }

func (f FS) OpenDir(name string) (vfs.Dir, error) { return vfs.NamedDir{FS: f, Name: name}, nil }

func (f FS) Open(name string) (vfs.File, error) { return fast(f.OS.Open(name)) }

func (f FS) Create(name string) (vfs.File, error) { return fast(f.OS.Create(name)) }

func (f FS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	return fast(f.OS.OpenFile(name, flag, perm))
}

func fast(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}
