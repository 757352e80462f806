package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/zkd-project/zkd/internal/fault"
)

// ErrNoSpace is returned by Write when the disk has less room left than
// Options.Reserve. The unfinished file is gone; try again when there is space.
var ErrNoSpace = errors.New("not enough space on the disk for a snapshot")

// readError is an error of the operating system while it reads a file.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

// readFailed returns the error for a read at off that delivered too little: a
// readError, unless the file has ended.
func readFailed(off int64, err error) error {
	if err = fmt.Errorf("read at offset %d: %w", off, err); errors.Is(err, io.EOF) {
		return err
	}
	return readError{err}
}

// faultOf makes err, which is about the file at path, a *fault.Error of the given
// kind, unless err says otherwise or is that ctx has ended.
func faultOf(ctx context.Context, kind fault.Kind, path string, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		return fmt.Errorf("read snapshot %s: %w", filepath.Base(path), cause)
	}
	if _, ok := errors.AsType[readError](err); ok {
		kind = fault.Unreadable
	}
	return fault.New(kind, path, err)
}
