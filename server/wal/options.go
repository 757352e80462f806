package wal

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// Options are the settings of a log. Zero values mean the defaults, except for Dir.
type Options struct {
	FS  vfs.FS // default: the operating system's
	Dir string // of the segments; created if necessary

	// SegmentSize is the size of a full-grown segment, in bytes; default 64
	// MiB, at least 16 KiB. ZooKeeper's preAllocSize.
	SegmentSize int64
	// Ident is an opaque identity, at most MaxIdent bytes, for a new log. An existing log keeps
	// its own; Open returns it.
	Ident []byte
	// NoSync skips every fsync: a power cut then loses or damages the log.
	// ZooKeeper's forceSync=no.
	NoSync bool
	// FsyncWarn is how long an fsync may take before it is logged and counted as
	// slow. ZooKeeper's fsync.warningthresholdms.
	FsyncWarn time.Duration
	// AcceptLossAfter lets Open give up everything after a damage. It must be the Good field of
	// the CorruptError that Open returns without it.
	AcceptLossAfter *jute.Zxid

	// SetAside makes Open replace a log whose bytes are damaged (fault.Damaged) by an empty one
	// instead of failing: see Recovered.Damaged. It is for a server of an ensemble, which the
	// others can repair.
	SetAside bool
	// Order makes Open set aside any existing log, at the operator's request. It is the reason to
	// report.
	Order error
	// SetAsideIdent is the identity of the log that replaces a damaged one; default: Ident.
	SetAsideIdent []byte

	// CheckEntry is called with each entry that Open reads, and Check with the result, before
	// Open changes anything. An error ends Open. nil accepts everything. A log that is set aside
	// is not checked.
	CheckEntry func(*Record) error
	Check      func(*Recovered) error

	Logger     *zap.Logger           // default: none
	Registerer prometheus.Registerer // default: metrics are kept but not registered
}

const minSegmentSize = 16 << 10

func (o *Options) setDefaults() error {
	if o.Dir == "" {
		return errors.New("wal: no directory")
	}
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = 64 << 20
	}
	o.SegmentSize = max(o.SegmentSize, minSegmentSize) &^ (align - 1)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.SetAsideIdent == nil {
		o.SetAsideIdent = o.Ident
	}
	if n := max(len(o.Ident), len(o.SetAsideIdent)); n > MaxIdent {
		return fmt.Errorf("wal: identity of %d bytes: %w", n, ErrTooLarge)
	}
	return nil
}
