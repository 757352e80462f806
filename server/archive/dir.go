package archive

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zkd-project/zkd/internal/vfs"
)

// Storage is where an archive is.
type Storage interface {
	// String returns the name of the storage, for messages.
	String() string
	// List returns the names of all files with their sizes.
	List(ctx context.Context) (map[string]int64, error)
	// Open opens a file. The error matches fs.ErrNotExist if there is none.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Create makes a local file to write, which Put takes.
	Create() (*os.File, error)
	// Put closes f, and makes its content the file of a name, durable when Put returns. Whatever
	// happens, no part of a file has the name, and f is gone.
	Put(ctx context.Context, f *os.File, name string) error
	// Remove removes a file. It is no error if there is none.
	Remove(ctx context.Context, name string) error
}

// Dir is a directory.
type Dir string

// String returns the path.
func (d Dir) String() string { return string(d) }

// List implements Storage.
func (d Dir) List(context.Context) (map[string]int64, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	files := make(map[string]int64)
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		} else if err != nil {
			return nil, err
		}
		files[e.Name()] = info.Size()
	}
	return files, nil
}

// Open implements Storage.
func (d Dir) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(d.Path(name))
}

// Create implements Storage.
func (d Dir) Create() (*os.File, error) { return os.CreateTemp(string(d), unfinished) }

// Put implements Storage.
func (d Dir) Put(_ context.Context, f *os.File, name string) error {
	err := f.Sync()
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), d.Path(name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return vfs.OS{}.SyncDir(string(d))
}

// Path returns the path of a file. Storages on this machine have this method.
func (d Dir) Path(name string) string { return filepath.Join(string(d), name) }

// Remove implements Storage.
func (d Dir) Remove(_ context.Context, name string) error {
	err := os.Remove(d.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, vfs.OS{}.SyncDir(string(d)))
}
