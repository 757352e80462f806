//go:build !unix

package shell

import (
	"context"
	"os"
)

// lockFile does nothing: this system has no such locks. A line may be lost if one shell
// writes it while another one shortens the file.
func lockFile(*os.File) error { return nil }

// waiter can't wait here: a read continues until there is input.
type waiter struct{}

func newWaiter(*os.File) (*waiter, error) { return &waiter{}, nil }

func (*waiter) wait(ctx context.Context) error { return context.Cause(ctx) }

func (*waiter) close() {}

// notifyResize does nothing: the size is looked up for each line.
func notifyResize(chan<- os.Signal) {}
