package crashfs

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
)

// ErrInjected is an error for hooks to return.
var ErrInjected = errors.New("injected fault")

// OpKind is a kind of operation.
type OpKind string

// The kinds.
const (
	OpOpen     OpKind = "open"
	OpCreate   OpKind = "create" // an open that makes or empties a file
	OpRead     OpKind = "read"
	OpWrite    OpKind = "write"
	OpTruncate OpKind = "truncate"
	OpSync     OpKind = "sync"
	OpClose    OpKind = "close"
	OpRename   OpKind = "rename"
	OpRemove   OpKind = "remove"
	OpMkdir    OpKind = "mkdir"
	OpReadDir  OpKind = "readdir"
	OpChmod    OpKind = "chmod"
	OpSyncDir  OpKind = "syncdir"
	OpStat     OpKind = "stat"
	OpLock     OpKind = "lock"
)

// Mutates reports whether the operation changes or syncs something.
func (k OpKind) Mutates() bool {
	switch k {
	case OpOpen, OpRead, OpReadDir, OpStat, OpLock, OpClose:
		return false
	}
	return true
}

// Op is one operation.
type Op struct {
	Kind OpKind
	Name string
}

// Hook is called with an operation before it is done; an error makes it fail.
type Hook func(Op) error

// FS is a file system in memory.
type FS struct {
	mu struct {
		sync.Mutex
		dirs     map[string]*dir
		locks    map[string]bool
		capacity int64 // in blocks; 0 is no limit
		hook     Hook
		rng      *rand.Rand // decides what failed operations leave
		heap     heap
	}
}

var _ vfs.FS = (*FS)(nil)

// New returns an empty file system. seed decides what failed operations leave
// behind.
func New(seed uint64) *FS {
	f := &FS{}
	f.mu.dirs = map[string]*dir{"/": newDir(), ".": newDir()}
	f.mu.locks = map[string]bool{}
	f.mu.rng = rand.New(rand.NewPCG(seed, 1))
	return f
}

// SetHook installs the hook, or none if it is nil.
func (f *FS) SetHook(h Hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.hook = h
}

// SetCapacity limits the blocks of all files to that many bytes; 0 means no limit.
func (f *FS) SetCapacity(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.capacity = (bytes + blockSize - 1) / blockSize
}

// begin asks the hook. Without an error it returns holding the lock.
func (f *FS) begin(kind OpKind, name string) error {
	f.mu.Lock()
	hook := f.mu.hook
	if hook == nil {
		return nil
	}
	f.mu.Unlock()
	if err := hook(Op{kind, name}); err != nil {
		return &fs.PathError{Op: string(kind), Path: name, Err: err}
	}
	f.mu.Lock()
	return nil
}

// lookupLocked returns the directory that holds name, and the base name.
func (f *FS) lookupLocked(op OpKind, name string) (*dir, string, error) {
	name = filepath.Clean(name)
	d := f.mu.dirs[filepath.Dir(name)]
	if d == nil {
		return nil, "", &fs.PathError{Op: string(op), Path: name, Err: fs.ErrNotExist}
	}
	return d, filepath.Base(name), nil
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) { return f.OpenFile(name, os.O_RDONLY, 0) }

// Create implements vfs.FS.
func (f *FS) Create(name string) (vfs.File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
}

// OpenFile implements vfs.FS.
func (f *FS) OpenFile(name string, flag int, _ fs.FileMode) (vfs.File, error) {
	kind := OpOpen
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		kind = OpCreate
	}
	if err := f.begin(kind, name); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	d, base, err := f.lookupLocked(kind, name)
	if err != nil {
		return nil, err
	}
	n := d.live[base]
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, &fs.PathError{Op: string(kind), Path: name, Err: fs.ErrNotExist}
	case n != nil && flag&os.O_EXCL != 0:
		return nil, &fs.PathError{Op: string(kind), Path: name, Err: fs.ErrExist}
	case n == nil:
		n = &inode{}
		d.change(change{to: base, node: n})
	case flag&os.O_TRUNC != 0:
		n.truncate(0, &f.mu.heap)
	}
	n.opens++
	return &file{fs: f, name: name, node: n, writable: flag&(os.O_RDWR|os.O_WRONLY) != 0}, nil
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	if err := f.begin(OpStat, name); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	if f.mu.dirs[filepath.Clean(name)] != nil {
		return info{name: filepath.Base(name), dir: true}, nil
	}
	d, base, err := f.lookupLocked(OpStat, name)
	if err != nil {
		return nil, err
	}
	n := d.live[base]
	if n == nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return info{name: base, size: n.live.size}, nil
}

// Rename implements vfs.FS, within one directory.
func (f *FS) Rename(oldName, newName string) error {
	if filepath.Dir(filepath.Clean(oldName)) != filepath.Dir(filepath.Clean(newName)) {
		return f.move(oldName, newName)
	}
	if err := f.begin(OpRename, newName); err != nil {
		return err
	}
	defer f.mu.Unlock()
	d, from, err := f.lookupLocked(OpRename, oldName)
	if err != nil {
		return err
	}
	n := d.live[from]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: oldName, Err: fs.ErrNotExist}
	}
	d.change(change{from: from, to: filepath.Base(newName), node: n})
	return nil
}

// move renames between directories. In the crash model it is two changes: the file may be
// found under both names, or under none.
func (f *FS) move(oldName, newName string) error {
	if err := f.begin(OpRename, newName); err != nil {
		return err
	}
	defer f.mu.Unlock()
	d1, from, err := f.lookupLocked(OpRename, oldName)
	if err != nil {
		return err
	}
	d2, to, err := f.lookupLocked(OpRename, newName)
	if err != nil {
		return err
	}
	n := d1.live[from]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: oldName, Err: fs.ErrNotExist}
	}
	d2.change(change{to: to, node: n})
	d1.change(change{from: from})
	return nil
}

// Remove implements vfs.FS, for files.
func (f *FS) Remove(name string) error {
	if err := f.begin(OpRemove, name); err != nil {
		return err
	}
	defer f.mu.Unlock()
	d, base, err := f.lookupLocked(OpRemove, name)
	if err != nil {
		return err
	}
	if d.live[base] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	d.change(change{from: base})
	return nil
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.begin(OpReadDir, name); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	name = filepath.Clean(name)
	d := f.mu.dirs[name]
	if d == nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	var list []fs.DirEntry
	for base, n := range d.live {
		list = append(list, fs.FileInfoToDirEntry(info{name: base, size: n.live.size}))
	}
	for sub := range f.mu.dirs {
		if sub != name && filepath.Dir(sub) == name {
			list = append(list, fs.FileInfoToDirEntry(info{name: filepath.Base(sub), dir: true}))
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// MkdirAll implements vfs.FS. Directories are durable at once.
func (f *FS) MkdirAll(name string) error {
	if err := f.begin(OpMkdir, name); err != nil {
		return err
	}
	defer f.mu.Unlock()
	for name = filepath.Clean(name); f.mu.dirs[name] == nil; name = filepath.Dir(name) {
		f.mu.dirs[name] = newDir()
	}
	return nil
}

// RealPath implements vfs.FS. There are no links, and the working directory is /.
func (f *FS) RealPath(name string) (string, error) {
	if _, err := f.Stat(name); err != nil {
		return "", err
	}
	return filepath.Join("/", name), nil
}

// CopyMode implements vfs.FS. All files have one mode.
func (f *FS) CopyMode(from, to string) error {
	if _, err := f.Stat(from); err != nil {
		return err
	}
	if err := f.begin(OpChmod, to); err != nil {
		return err
	}
	f.mu.Unlock()
	return nil
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(name string) error {
	err := f.begin(OpSyncDir, name)
	if err != nil {
		f.mu.Lock() // a failed sync has effects, too
	}
	defer f.mu.Unlock()
	d := f.mu.dirs[filepath.Clean(name)]
	if d == nil {
		return errors.Join(err, &fs.PathError{Op: "sync", Path: name, Err: fs.ErrNotExist})
	}
	if err != nil {
		d.sync(coin(f.mu.rng))
	} else {
		d.sync(always)
	}
	return err
}

// OpenDir implements vfs.FS.
func (f *FS) OpenDir(name string) (vfs.Dir, error) { return vfs.NamedDir{FS: f, Name: name}, nil }

// Lock implements vfs.FS. It leaves no file.
func (f *FS) Lock(name string) (io.Closer, error) {
	if err := f.begin(OpLock, name); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	name = filepath.Clean(name)
	if f.mu.locks[name] {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: vfs.ErrLocked}
	}
	f.mu.locks[name] = true
	return &lock{f, name}, nil
}

type lock struct {
	fs   *FS
	name string
}

func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.mu.locks, l.name)
	return nil
}

// Space implements vfs.FS. Without a capacity it is a terabyte.
func (f *FS) Space(string) (vfs.Space, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	total := f.mu.capacity
	if total == 0 {
		total = 1 << 40 / blockSize
	}
	return vfs.Space{Total: total * blockSize, Free: max(0, total-f.blocksLocked()) * blockSize}, nil
}

// blocksLocked counts the blocks of all files that have a name.
func (f *FS) blocksLocked() int64 {
	var n int64
	for _, d := range f.mu.dirs {
		for _, node := range d.live {
			n += node.blocks.count()
		}
	}
	return n
}

type info struct {
	name string
	size int64
	dir  bool
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

var errNoSpace = syscall.ENOSPC
