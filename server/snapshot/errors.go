package snapshot

import (
	"errors"
	"fmt"
)

// ErrNoSpace is returned by Write when the disk has less room left than
// Options.Reserve. The unfinished file is gone; try again when there is space.
var ErrNoSpace = errors.New("not enough space on the disk for a snapshot")

// InvalidError says that a snapshot can't be used. An older snapshot may serve
// in its place, if the log still has everything that came after it.
type InvalidError struct {
	File  string // path of the file
	Cause error  // what is wrong with it
}

// Error says what is damaged and what to do.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("snapshot %s is damaged: %v; the file is of no use: move it away and start again, "+
		"so that the next older snapshot with the log behind it is used, or restore it from a backup", e.File, e.Cause)
}

// Unwrap returns the cause.
func (e *InvalidError) Unwrap() error { return e.Cause }
