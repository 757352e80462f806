package crashfs

import (
	"io"
	"io/fs"
	"path/filepath"
)

// file is an open file.
type file struct {
	fs       *FS
	name     string
	node     *inode
	writable bool
	closed   bool
}

// begin asks the hook; without an error it returns holding the lock.
func (f *file) begin(kind OpKind, writes bool) error {
	if err := f.fs.begin(kind, f.name); err != nil {
		return err
	}
	err := fs.ErrClosed
	if !f.closed {
		if f.writable || !writes {
			return nil
		}
		err = fs.ErrPermission
	}
	f.fs.mu.Unlock()
	return &fs.PathError{Op: string(kind), Path: f.name, Err: err}
}

func (f *file) Name() string { return f.name }

func (f *file) Stat() (fs.FileInfo, error) {
	if err := f.begin(OpStat, false); err != nil {
		return nil, err
	}
	defer f.fs.mu.Unlock()
	return info{name: filepath.Base(f.name), size: f.node.live.size}, nil
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.begin(OpRead, false); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	n := f.node.live.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if err := f.begin(OpWrite, true); err != nil {
		f.failedWrite(p, off)
		return 0, err
	}
	defer f.fs.mu.Unlock()
	if c := f.fs.mu.capacity; c > 0 {
		if more := f.node.newBlocks(off, int64(len(p))); more > 0 && f.fs.blocksLocked()+more > c {
			return 0, &fs.PathError{Op: "write", Path: f.name, Err: errNoSpace}
		}
	}
	f.write(p, off)
	return len(p), nil
}

func (f *file) write(p []byte, off int64) {
	heap := &f.fs.mu.heap
	heap.lend(f.node)
	f.node.addBlocks(off, int64(len(p)))
	f.node.write(p, off, heap)
}

// failedWrite leaves a part of a write that failed.
func (f *file) failedWrite(p []byte, off int64) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.writable && !f.closed {
		f.write(p[:f.fs.mu.rng.IntN(len(p)+1)], off)
	}
}

func (f *file) Truncate(size int64) error {
	if err := f.begin(OpTruncate, true); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	f.node.truncate(size, &f.fs.mu.heap)
	return nil
}

func (f *file) Sync() error {
	if err := f.begin(OpSync, false); err != nil {
		f.fs.mu.Lock()
		defer f.fs.mu.Unlock()
		f.node.sync(coin(f.fs.mu.rng), &f.fs.mu.heap)
		return err
	}
	defer f.fs.mu.Unlock()
	f.node.sync(always, &f.fs.mu.heap)
	return nil
}

func (f *file) SyncData() error { return f.Sync() }

func (f *file) Orphaned() bool {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	for _, d := range f.fs.mu.dirs {
		for _, node := range d.live {
			if node == f.node {
				return false
			}
		}
	}
	return f.node.opens == 1
}

func (f *file) Close() error {
	err := f.begin(OpClose, false)
	if err != nil {
		f.fs.mu.Lock()
	}
	defer f.fs.mu.Unlock()
	if !f.closed {
		f.closed = true
		f.node.opens--
	}
	return err
}
