package vfs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ErrLocked is returned by [FS.Lock] while another process, or another owner in
// this one, holds the lock.
var ErrLocked = errors.New("locked by another process")

// FS is a file system. Names are paths as in package os.
type FS interface {
	// Open opens a file for reading.
	Open(name string) (File, error)
	// Create makes a new, empty file for reading and writing with mode 0600, or empties the
	// existing one.
	Create(name string) (File, error)
	// OpenFile is the general call; flag and perm are those of os.OpenFile.
	// os.O_APPEND is not supported: writes name their offset.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Stat describes the named file or directory.
	Stat(name string) (fs.FileInfo, error)
	// Rename moves a file to a new name atomically, and replaces the file of that name.
	Rename(oldName, newName string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// MkdirAll makes a directory with mode 0700 and all its missing parents,
	// and makes the new names durable.
	MkdirAll(name string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(name string) error
	// OpenDir opens a directory to be synced again and again. Its Sync needs no further
	// descriptor.
	OpenDir(name string) (Dir, error)
	// Lock acquires the exclusive lock of the named file; the file is created if
	// necessary and stays. The lock ends with Close or with the process. If the lock is held
	// already, Lock returns an error that matches ErrLocked at once.
	Lock(name string) (io.Closer, error)
	// RealPath returns the absolute name of the file that name leads to through
	// symbolic links.
	RealPath(name string) (string, error)
	// CopyMode gives a file the mode of another one, and the owner and the group
	// as far as the process is allowed to.
	CopyMode(from, to string) error
	// Space returns the room on the file system that holds name.
	Space(name string) (Space, error)
}

// Dir is an open directory.
type Dir interface {
	io.Closer
	// Sync makes the names in the directory durable.
	Sync() error
}

// NamedDir is a Dir that calls FS.SyncDir by the name, for file systems without descriptors.
type NamedDir struct {
	FS   FS
	Name string
}

// Sync implements Dir.
func (d NamedDir) Sync() error { return d.FS.SyncDir(d.Name) }

// Close implements Dir.
func (NamedDir) Close() error { return nil }

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name is the name that the file was opened by.
	Name() string
	Stat() (fs.FileInfo, error)
	// Truncate sets the size; new bytes are zero.
	Truncate(size int64) error
	// Sync makes the bytes and all metadata durable.
	Sync() error
	// SyncData is Sync without the times and the mode: the bytes and the size.
	// On a file whose blocks are written already it costs no metadata write.
	SyncData() error
	// Orphaned reports whether nothing else can reach the file: it has no name any more, and is
	// open nowhere else, in this process and in others. It returns false where that cannot be known.
	Orphaned() bool
}

// Space is the room on a file system, in bytes and in inodes.
type Space struct {
	Device uint64 // of the file system; two directories of one have the same
	Total  int64
	Free   int64 // what an ordinary user may still write
	Inodes int64 // 0 if the file system makes as many as it needs
	// FreeInodes is how many files can still be made.
	FreeInodes int64
}

// ReadFile returns the whole content of a file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, info.Size()), data); err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, nil
}

// Replace writes a file durably and in one step: after a crash there is the old
// file, or none if there was none, or the new one. The new file has the mode and
// the owner of the file named like, or of a new file if like is "". After an error the old file is there, except
// that the new one may be there if the directory could not be synced.
func Replace(fsys FS, name string, data []byte, like string) error {
	tmp := name + ".tmp"
	f, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil && like != "" {
		err = fsys.CopyMode(like, tmp)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(tmp))
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// freeStep is how many bytes RemoveInSteps frees at once.
const freeStep = 4 << 20

// RemoveInSteps removes a file durably, and then frees its space in steps, with rests: to free
// hundreds of megabytes at once can occupy a disk for a tenth of a second. Space that is left when
// ctx ends is freed at once. A file that has another name, or is open elsewhere, keeps its content.
func RemoveInSteps(ctx context.Context, fsys FS, name string) error {
	f, openErr := fsys.OpenFile(name, os.O_WRONLY, 0)
	err := fsys.Remove(name)
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(name))
	}
	if openErr != nil {
		return err
	}
	if err == nil && f.Orphaned() {
		free(ctx, f)
	}
	return errors.Join(err, f.Close())
}

// free makes a file that has no name empty, or as small as it can. Close frees the rest.
func free(ctx context.Context, f File) {
	info, err := f.Stat()
	if err != nil {
		return
	}
	rest := time.NewTimer(0)
	defer rest.Stop()
	for size := info.Size() - freeStep; size > 0; size -= freeStep {
		select {
		case <-rest.C:
		case <-ctx.Done():
			return
		}
		begin := time.Now()
		if f.Truncate(size) != nil || f.Sync() != nil {
			return
		}
		rest.Reset(time.Since(begin))
	}
}
