// Package fault classifies the reasons why a file can't be used. What may be done about a
// file depends only on its class: only what is [Damaged] may be set aside without an order of
// the operator, because only its bytes are proven to be lost. Everything else may come back:
// a volume that is not mounted, a disk that does not answer, a later version of the program.
package fault

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/zkd-project/zkd/internal/format"
)

// Kind is a class of reasons.
type Kind uint8

// The kinds. The zero Kind is none.
const (
	// Damaged means that a checksum proves that bytes are wrong or gone.
	Damaged Kind = iota + 1
	// Missing means that there is no such file.
	Missing
	// Unreadable means that the operating system does not deliver the bytes: an
	// I/O error, or permissions.
	Unreadable
	// Newer means that a later version of zkd wrote the file.
	Newer
	// Foreign means that the file is sound, but not the expected one: it belongs to another
	// server, or is of another time.
	Foreign
	// Inconsistent means that the checksums are right and the content is
	// impossible: a defect of the program, or of the memory, that wrote it.
	Inconsistent
)

var kinds = [...]string{Damaged: "damaged", Missing: "missing", Unreadable: "unreadable",
	Newer: "of a later version", Foreign: "another's", Inconsistent: "inconsistent"}

// String returns the kind as an adjective.
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kinds) {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return kinds[k]
}

// Error means that a file can't be used.
type Error struct {
	Kind  Kind
	File  string // its path
	Cause error
}

// New returns an Error. If the cause is a fault already, its kind is kept; one of the same
// file is returned unchanged.
func New(kind Kind, file string, cause error) *Error {
	if inner, ok := cause.(*Error); ok && inner.File == file {
		return inner
	}
	if k := KindOf(cause); k != 0 {
		kind = k
	}
	return &Error{Kind: kind, File: file, Cause: cause}
}

// IO returns the Error for an error of the operating system.
func IO(file string, err error) *Error {
	if errors.Is(err, fs.ErrNotExist) {
		return New(Missing, file, err)
	}
	return New(Unreadable, file, err)
}

// Error names the file, the kind and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("%s is %v: %v", e.File, e.Kind, e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// KindOf returns the kind of the first fault in err's tree, and 0 if there is
// none. A *format.VersionError counts as Newer.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if _, ok := errors.AsType[*format.VersionError](err); ok {
		return Newer
	}
	return 0
}
