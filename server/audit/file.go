package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
)

// FileOptions configure a File.
type FileOptions struct {
	FS   vfs.FS
	Path string
	// MaxBytes is the size from which a new file begins. One write may exceed it.
	MaxBytes int64
	// Every is the period after which a new file begins, such as 24 h for one file a day
	// (UTC); 0 means that only the size counts.
	Every time.Duration
	// Keep is the number of older files that are kept; 0 means all.
	Keep int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Warn is called with errors that cost no line: an old file can't be removed.
	Warn func(error)
}

// File is a Sink that writes a file, and renames it when it is long or old: PATH to
// PATH.20260102T150405.678Z, with the time of the rename.
type File struct {
	o      FileOptions
	lock   io.Closer
	f      vfs.File // nil if a new one could not be opened
	size   int64
	period int64 // of the last write
	cut    bool  // the last line is not complete
}

// stampLayout is that of the time in the name of an older file. Names sort by time.
const stampLayout = "20060102T150405.000Z"

// OpenFile opens the file, or makes it with mode 0600 and its directories with mode 0700.
// It locks PATH.lock, because lines of two processes in one file would overwrite each
// other. If the last line is incomplete, a crash or a full disk has cut it; it stays as it
// is, and a line break ends it.
func OpenFile(o FileOptions) (*File, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	f := &File{o: o}
	if err := o.FS.MkdirAll(filepath.Dir(o.Path)); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	lock, err := o.FS.Lock(o.Path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	f.lock = lock
	if err := f.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("audit log: %w", err), f.Close())
	}
	return f, nil
}

func (f *File) open() error {
	file, err := f.o.FS.OpenFile(f.o.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.f = file
	f.size, f.period = info.Size(), f.periodOf(info.ModTime())
	if f.size == 0 {
		f.period = f.periodOf(f.o.Now())
		return f.o.FS.SyncDir(filepath.Dir(f.o.Path))
	}
	var last [1]byte
	if _, err := file.ReadAt(last[:], f.size-1); err != nil {
		return err
	}
	if last[0] != '\n' {
		return f.append([]byte{'\n'})
	}
	return nil
}

func (f *File) append(b []byte) error {
	n, err := f.f.WriteAt(b, f.size)
	f.size += int64(n)
	return err
}

func (f *File) periodOf(t time.Time) int64 {
	if f.o.Every <= 0 {
		return 0
	}
	return t.UnixNano() / int64(f.o.Every)
}

// Write implements Sink. After an error, the lines that were not taken can be written again: the rest of a line goes
// to the file that has its beginning.
func (f *File) Write(lines []byte, _ []Result) (int, error) {
	now := f.o.Now()
	if f.f == nil {
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	if f.size > 0 && !f.cut && (f.size+int64(len(lines)) > f.o.MaxBytes || f.periodOf(now) != f.period) {
		if err := f.rotate(now); err != nil {
			return 0, fmt.Errorf("begin a new file: %w", err)
		}
	}
	f.period = f.periodOf(now)
	before := f.size
	err := f.append(lines)
	n := int(f.size - before)
	if n > 0 {
		f.cut = lines[n-1] != '\n'
	}
	return n, err
}

// rotate renames the file, and begins a new one.
func (f *File) rotate(now time.Time) error {
	err := errors.Join(f.f.Sync(), f.f.Close())
	f.f = nil
	if err != nil {
		return err
	}
	name := f.o.Path + "." + now.UTC().Format(stampLayout)
	for f.exists(name) {
		now = now.Add(time.Millisecond)
		name = f.o.Path + "." + now.UTC().Format(stampLayout)
	}
	if err := f.o.FS.Rename(f.o.Path, name); err != nil {
		return err
	}
	if err := f.open(); err != nil {
		return err
	}
	if err := f.prune(); err != nil && f.o.Warn != nil {
		f.o.Warn(fmt.Errorf("remove old files of the audit log: %w", err))
	}
	return nil
}

func (f *File) exists(name string) bool {
	_, err := f.o.FS.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// prune removes all but the newest of the older files.
func (f *File) prune() error {
	if f.o.Keep == 0 {
		return nil
	}
	dir := filepath.Dir(f.o.Path)
	entries, err := f.o.FS.ReadDir(dir)
	if err != nil {
		return err
	}
	var old []string
	for _, e := range entries {
		stamp, ours := strings.CutPrefix(e.Name(), filepath.Base(f.o.Path)+".")
		if _, err := time.Parse(stampLayout, stamp); ours && err == nil {
			old = append(old, e.Name())
		}
	}
	slices.Sort(old)
	for _, name := range old[:max(0, len(old)-f.o.Keep)] {
		err = errors.Join(err, f.o.FS.Remove(filepath.Join(dir, name)))
	}
	return err
}

// Close implements Sink.
func (f *File) Close() error {
	var err error
	if f.f != nil {
		err = errors.Join(f.f.Sync(), f.f.Close())
	}
	return errors.Join(err, f.lock.Close())
}
