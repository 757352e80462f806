//go:build !unix

package shell

import (
	"context"
	"os"
)

// lockFile does nothing: there are no such locks here. A line that two shells write
// at the same time as one of them shortens the file may be lost.
func lockFile(*os.File) error { return nil }

// waiter can't wait here: a read goes on until there is input.
type waiter struct{}

func newWaiter(*os.File) (*waiter, error) { return &waiter{}, nil }

func (*waiter) wait(ctx context.Context) error { return context.Cause(ctx) }

func (*waiter) close() {}

// notifyResize does nothing: the size is looked up for each line.
func notifyResize(chan<- os.Signal) {}
