//go:build unix

package shell

import (
	"context"
	"errors"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// lockFile waits for the lock of a file, which lasts until the file is closed.
func lockFile(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// waiter waits for input in such a way that a context can end it.
type waiter struct {
	in         *os.File
	wake, woke *os.File // a pipe
}

func newWaiter(in *os.File) (*waiter, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &waiter{in: in, wake: w, woke: r}, nil
}

// wait returns when there is input, or with the cause when ctx is done.
func (w *waiter) wait(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _, _ = w.wake.Write([]byte{0}) })()
	fds := []unix.PollFd{
		{Fd: int32(w.in.Fd()), Events: unix.POLLIN},
		{Fd: int32(w.woke.Fd()), Events: unix.POLLIN},
	}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, unix.EINTR):
		default:
			return err
		}
	}
}

func (w *waiter) close() {
	w.wake.Close()
	w.woke.Close()
}

// notifyResize has a signal sent for each change of the terminal's size.
func notifyResize(c chan<- os.Signal) { signal.Notify(c, unix.SIGWINCH) }
