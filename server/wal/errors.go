package wal

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/jute"
)

var (
	// ErrClosed is returned by calls after Close.
	ErrClosed = errors.New("log closed")
	// ErrDiscontinuous is returned for a record that can't follow the last one: an entry whose
	// Prev is not the last zxid, or a truncation or snapshot reference outside the history. It is
	// an error of the caller; nothing of the record was written, and the log accepts no more.
	ErrDiscontinuous = errors.New("discontinuous record")
	// ErrTooLarge is returned for a payload over the limit of its kind.
	ErrTooLarge = errors.New("payload too large")
	// ErrPurged is returned by Replay, NewReader and Reader.Next when the entries after the zxid
	// are no longer in the log, or never were: a snapshot is needed.
	ErrPurged = errors.New("entries no longer in the log")
	// ErrRewritten is returned by Reader.Next when entries were truncated, or the history was
	// replaced by an installed snapshot, since the reader was made. Make a new reader, after a
	// zxid that the history has now.
	ErrRewritten = errors.New("history changed behind the reader")
	// ErrWaits is returned by Append, beside its cause, when no segment can be begun for want of room, inodes or
	// descriptors. Everything before NextSeq is durable, nothing of the rest is written, and it can be appended later.
	ErrWaits = errors.New("no segment can be begun")
	// ErrNoSnapRef is returned by Purge for a zxid without a durable snapshot reference in the
	// log.
	ErrNoSnapRef = errors.New("no durable snapshot reference")
)

// errInvalid is the error for a record or a header that does not decode.
var errInvalid = errors.New("invalid")

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errInvalid, fmt.Sprintf(format, args...))
}

// CorruptError says that a part of the log which had been durable can't be used: its bytes
// are damaged (fault.Damaged), a segment is gone (fault.Missing), a file belongs to another
// log (fault.Foreign), or the records contradict each other although their checksums are
// right (fault.Inconsistent). Open returns it and has changed nothing, except as
// Options.SetAside says for damage.
//
// Data that can't be read at present, or were written by a later version, are reported by a
// *fault.Error without a CorruptError.
type CorruptError struct {
	Kind    fault.Kind
	Segment string // path of the file
	Offset  int64  // of the first bad record in it; 0 for the header
	Seq     uint64 // of the first lost record
	// LastSeq is the highest record number known to have been durable, LastZxid the highest zxid
	// in a readable record after the damage (0 if there was none). More may have been there.
	LastSeq  uint64
	LastZxid jute.Zxid
	// LastGood is the zxid of the last entry before the damage. Opening with AcceptLossAfter set to
	// it gives up everything after it.
	LastGood jute.Zxid
	// Readable is false if nothing before the damage can be read; then AcceptLossAfter does not
	// help.
	Readable bool
	// Covered is set when a snapshot recorded after the damage makes up for all of it: with the
	// segments up to the damaged one moved away, the log opens, and nothing is lost if that
	// snapshot is sound.
	Covered *SnapRef
	// Aside lists the segments that would have to be moved away for that.
	Aside []string
	// Renamed are the new names of all segments, if Options.SetAside set them aside.
	Renamed []string
	Cause   error
}

// Error describes the fault, what it affects, and the possible remedies.
func (e *CorruptError) Error() string {
	var b strings.Builder
	if e.Kind == fault.Missing {
		fmt.Fprintf(&b, "log incomplete: %s is missing: %v", e.Segment, e.Cause)
	} else {
		fmt.Fprintf(&b, "log corrupt: %s at offset %d is %v: %v", e.Segment, e.Offset, e.Kind, e.Cause)
	}
	fmt.Fprintf(&b, "; records %d to at least %d are affected, zxids after %s", e.Seq, max(e.LastSeq, e.Seq), e.LastGood)
	if e.LastZxid > e.LastGood {
		fmt.Fprintf(&b, " up to at least %s", e.LastZxid)
	}
	if e.Renamed != nil {
		fmt.Fprintf(&b, ". All segments were set aside: %s. An empty log begins in their place.", strings.Join(e.Renamed, ", "))
		return b.String()
	}
	b.WriteString(". Nothing was changed.")
	if e.Covered != nil {
		fmt.Fprintf(&b, " The snapshot %s at %s covers the damage: if it is sound, moving away %s loses nothing.",
			e.Covered.Name, e.Covered.Zxid, strings.Join(e.Aside, ", "))
	}
	if e.Readable {
		fmt.Fprintf(&b, " To give up everything after zxid %s, start with --accept-data-loss-after=%s.", e.LastGood, e.LastGood)
	} else {
		b.WriteString(" No record before that is readable: restore this directory from a backup.")
	}
	return b.String()
}

// Unwrap returns the fault, and through it the cause.
func (e *CorruptError) Unwrap() error {
	return &fault.Error{Kind: e.Kind, File: e.Segment, Cause: e.Cause}
}
