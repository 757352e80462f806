package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// openFile opens a file that is read more than once. For stdin, "-", and for a pipe it opens
// a copy. remove closes it.
func (c *Call) openFile(ctx context.Context, name string) (f *os.File, remove func(), err error) {
	switch {
	case name == "-" && c.App.session:
		return nil, nil, c.Usage("- reads stdin, which is where the commands come from")
	case name == "-":
		return copyOf(ctx, c.App.in, "stdin")
	}
	f, err = unlessDone(ctx, func() (*os.File, error) { return os.Open(name) })
	if err != nil {
		return nil, nil, err
	}
	if !readOnce(name) {
		return f, func() { f.Close() }, nil
	}
	defer f.Close()
	return copyOf(ctx, f, name)
}

// copyOf copies what can be read only once.
func copyOf(ctx context.Context, in io.Reader, name string) (f *os.File, remove func(), err error) {
	f, err = os.CreateTemp("", "zkcli-*")
	if err != nil {
		return nil, nil, err
	}
	remove = func() {
		f.Close()
		os.Remove(f.Name())
	}
	if _, err = io.Copy(f, &interruptible{ctx, in}); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		remove()
		return nil, nil, fmt.Errorf("copy %s to %s: %w", name, f.Name(), err)
	}
	return f, remove, nil
}

// readOnce reports whether a file is stdin, stdout, a pipe or a device.
func readOnce(name string) bool {
	if name == "-" {
		return true
	}
	info, err := os.Stat(name)
	return err == nil && !info.Mode().IsRegular()
}

// writeFile calls write to fill a new file, which replaces the old one when it is complete
// and on disk. It follows a symbolic link. A pipe or a device is written to directly. "-"
// means stdout.
func writeFile(ctx context.Context, name string, stdout io.Writer, write func(io.Writer) error) error {
	if name == "-" {
		return write(stdout)
	}
	if readOnce(name) {
		return writeTo(ctx, name, write)
	}
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			e.Path = name
		}
		return err
	}
	err = errors.Join(write(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// writeTo calls write for an existing file that can't be replaced.
func writeTo(ctx context.Context, name string, write func(io.Writer) error) error {
	f, err := unlessDone(ctx, func() (*os.File, error) { return os.OpenFile(name, os.O_WRONLY, 0) })
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
