//go:build linux || darwin

package shell

import (
	"bytes"
	"context"
	"io"
	"os"
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
	restore, err := withoutLines(int(f.Fd()))
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

// withoutLines makes a terminal hand over each key at once, without an echo.
func withoutLines(fd int) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(fd, ioctlGetTermios)
	if err != nil {
		return nil, err
	}
	keys := *before
	keys.Lflag &^= unix.ICANON | unix.ECHO
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, ioctlSetTermios, &keys); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, ioctlSetTermios, before) }, nil
}
