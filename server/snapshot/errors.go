package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/zkd-project/zkd/internal/fault"
)

// ErrNoSpace is returned by Write when the disk has less free space than Options.Reserve.
// The unfinished file is gone; try again when there is space.
var ErrNoSpace = errors.New("not enough space on the disk for a snapshot")

// readError is an error of the operating system while reading a file.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

// readFailed returns the error for a read at off that returned too few bytes: a readError,
// unless the file has ended.
func readFailed(off int64, err error) error {
	if err = fmt.Errorf("read at offset %d: %w", off, err); errors.Is(err, io.EOF) {
		return err
	}
	return readError{err}
}

// faultOf converts err, which concerns the file at path, to a *fault.Error of the given
// kind, unless err says otherwise or ctx has ended.
func faultOf(ctx context.Context, kind fault.Kind, path string, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		return fmt.Errorf("read snapshot %s: %w", filepath.Base(path), cause)
	}
	if _, ok := errors.AsType[readError](err); ok {
		kind = fault.Unreadable
	}
	return fault.New(kind, path, err)
}
