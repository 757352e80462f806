package queue

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
)

// ErrEmpty is what Element and Remove return of a queue without items.
var ErrEmpty = errors.New("queue is empty")

// ErrUnknown is that the session ended, or the context did, while an item was being
// offered or taken, and it can't be found out whether that was done. If it was an
// item that was being taken the error is an *UnknownError, too, which has it.
var ErrUnknown = errors.New("it is not known whether it was done")

// UnknownError is that items were being taken, and it can't be found out whether this
// consumer has got them, or another one, or whether they are in the queue still.
// Who does the work all the same may do it twice; who does not may leave it undone.
type UnknownError struct {
	Data [][]byte // of the items
	Err  error    // what got in the way
}

// Error says what happened.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("take %d items: %v: %v", len(e.Data), ErrUnknown, e.Err)
}

// Unwrap returns ErrUnknown and what got in the way.
func (e *UnknownError) Unwrap() []error { return []error{ErrUnknown, e.Err} }

// unknown is err of a change of which it is not known whether it was done. It is
// ambiguous to client.IsAmbiguous, too.
func unknown(path string, err error) error {
	return &client.Error{Op: multi, Path: path, Err: ErrUnknown, Cause: err, Ambiguous: true}
}

// multi is the operation's code in the protocol.
const multi client.OpCode = 14

// badArgument is the error of a call that was given something wrong.
func badArgument(path, what string) error {
	return fmt.Errorf("queue %s: %w: %s", path, client.ErrBadArguments, what)
}
