package queue

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
)

// ErrUnknown means that the session or the context ended while an item was being offered or
// taken, and that it can't be found out whether that was done. If an item was being taken,
// the error is also an *UnknownError, which has the item.
var ErrUnknown = errors.New("it is not known whether it was done")

// UnknownError means that items were being taken, and that it can't be found out whether
// this consumer has got them, or another one, or whether they are still in the queue. To do
// the work may do it twice; not to do it may leave it undone.
type UnknownError struct {
	Data [][]byte // of the items
	Err  error    // the cause
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("take %d items: %v: %v", len(e.Data), ErrUnknown, e.Err)
}

func (e *UnknownError) Unwrap() []error { return []error{ErrUnknown, e.Err} }

// unknown returns an ErrUnknown with err as its cause. It is ambiguous to client.IsAmbiguous,
// too.
func unknown(path string, err error) error {
	return &client.Error{Op: multi, Path: path, Err: ErrUnknown, Cause: err, Ambiguous: true}
}

// multi is the operation's code in the protocol.
const multi client.OpCode = 14

func badArgument(path, what string) error {
	return fmt.Errorf("queue %s: %w: %s", path, client.ErrBadArguments, what)
}
