//go:build linux || darwin

package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/zkd-project/zkd/internal/console"
)

// EndedByKey returns a context that ends when one of the keys is typed, if in is a
// terminal. Until stop is called, what is typed is read and not shown; Ctrl-C stays a
// signal. It is for a command that shows something until it is ended.
func EndedByKey(ctx context.Context, in io.Reader, keys string) (ended context.Context, stop func()) {
	f, ok := in.(*os.File)
	if !ok || !console.Is(f) {
		return ctx, func() {}
	}
	restore, err := without(int(f.Fd()), unix.ICANON|unix.ECHO)
	if err != nil {
		return ctx, func() {}
	}
	w, err := newWaiter(f)
	if err != nil {
		restore()
		return ctx, func() {}
	}
	ended, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer cancel()
		b := make([]byte, 64)
		for w.wait(ended) == nil {
			n, err := f.Read(b)
			if err != nil || bytes.ContainsAny(b[:n], keys) {
				return
			}
		}
	})
	return ended, func() {
		cancel()
		reader.Wait()
		w.close()
		restore()
	}
}

// Password writes a question to out, and reads a line from in that is not shown. If in is no
// terminal, it fails with errors.ErrUnsupported. Ctrl-C ends it.
func Password(ctx context.Context, in io.Reader, out io.Writer, question string) (string, error) {
	f, ok := in.(*os.File)
	if !ok || !console.Is(f) {
		return "", errors.ErrUnsupported
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	w, err := newWaiter(f)
	if err != nil {
		return "", err
	}
	defer w.close()
	restore, err := without(int(f.Fd()), unix.ECHO)
	if err != nil {
		return "", err
	}
	defer restore()
	fmt.Fprint(out, question)
	defer fmt.Fprintln(out)
	var line []byte
	for one := make([]byte, 1); ; { // what follows the line is not for this
		if err := w.wait(ctx); err != nil {
			return "", err
		}
		n, err := f.Read(one)
		switch {
		case n > 0 && one[0] == '\n', errors.Is(err, io.EOF) && len(line) > 0:
			return string(bytes.TrimSuffix(line, []byte("\r"))), nil
		case err != nil:
			return "", err
		}
		line = append(line, one[:n]...)
	}
}

// without turns local modes of a terminal off: ICANON, so that it hands over each key at once, or
// ECHO.
func without(fd int, modes uint32) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(fd, ioctlGetTermios)
	if err != nil {
		return nil, err
	}
	changed := *before
	changed.Lflag &^= localModes(modes)
	if modes&unix.ICANON != 0 {
		changed.Cc[unix.VMIN], changed.Cc[unix.VTIME] = 1, 0
	}
	if err := unix.IoctlSetTermios(fd, ioctlSetTermios, &changed); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, ioctlSetTermios, before) }, nil
}
