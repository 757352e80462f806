package line

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// InBackground returns the error of a deletion that has failed with err and continues in the
// background. It is ambiguous, as it is not known whether the deletion will find the node.
func InBackground(path string, err error) error {
	cause := fmt.Errorf("it continues in the background: %w", err)
	return &client.Error{Op: jute.OpDelete, Path: path, Err: client.ErrConnectionLoss, Cause: cause, Ambiguous: true}
}

// InDoubt returns err, which is ambiguous, with the reason why it stays so.
func InDoubt(err, why error) error { return explain(err, why, true) }

// Settled returns err, which may be ambiguous, as one that is not, with the reason why it is
// known that the change was not done. If why is nil, err keeps its own reason.
func Settled(err, why error) error { return explain(err, why, false) }

func explain(err, why error, ambiguous bool) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || !e.Ambiguous {
		return err
	}
	is := *e
	is.Ambiguous = ambiguous
	if in, ok := errors.AsType[*client.Error](why); ok {
		is.Err, is.Cause = in.Err, in.Cause
	} else if why != nil {
		is.Err, is.Cause = why, nil
	}
	return &is
}

// FailedOp returns the index of the operation that failed in a multi, or -1 if the error is
// not about one operation.
func FailedOp(err error) int {
	if m, ok := errors.AsType[*client.MultiError](err); ok {
		return m.Index
	}
	return -1
}
