package wal

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/zkd-project/zkd/jute"
)

// end is where the records of the last segment end, and what lies behind.
type end struct {
	offset  int64
	seq     uint64 // of the last record before it
	durable uint64 // the highest record proven durable, at most seq
	dirty   bool   // there is something but zeros behind
	// bad is set if the record at offset had been durable: the log is corrupt.
	bad          error
	provenBehind uint64
	zxidBehind   jute.Zxid
}

// findEnd walks the records of the last segment up to the first place where none
// follows. Whether that is the end that a crash leaves or damage is told by what
// is behind it:
//
//   - A record there that says that the missing one had been synced when it was
//     written: damage.
//   - A whole record right at the place that does not belong there: damage, as
//     each place of a segment is written only once.
//   - Anything else was written by the batches whose fsync never completed, and
//     parts of them may have reached the disk in any order: a torn end.
//
// A commit hint proves nothing more than its own durable number does, since a
// hint that is written is never ahead of what is durable.
func findEnd(w *window, h *header, crc uint32) (end, error) {
	e := end{offset: headerSize, seq: h.first - 1, durable: h.first - 1}
	for {
		f, err := w.expect(e.offset, h.crc, e.seq+1, crc)
		if errors.Is(err, errOutOfPlace) {
			e.bad = err
		} else if err != nil && !errors.Is(err, errInvalid) {
			return e, err
		}
		if err != nil {
			return e, e.lookBehind(w, h.crc, err)
		}
		e.offset += int64(f.size)
		e.seq, crc = f.seq, f.crc
		e.durable = max(e.durable, f.durable)
	}
}

// lookBehind searches the rest of the segment for records that prove that the
// one missing at e.offset had been durable.
func (e *end) lookBehind(w *window, salt uint32, cause error) error {
	for off := e.offset; off < w.limit; {
		b, err := w.at(off, 4096)
		if err != nil {
			return err
		}
		if len(b) == 0 || allZero(b) {
			off += max(int64(len(b)), align)
			continue
		}
		e.dirty = true
		block := off + int64(len(b))
		for off < block {
			size, err := e.inspect(w, off, salt)
			if err != nil {
				return err
			}
			off += size
		}
	}
	if e.provenBehind > e.seq && e.bad == nil {
		e.bad = cause
	}
	return nil
}

// inspect looks for a record at off, takes account of it if there is one, and
// returns how far to go on.
func (e *end) inspect(w *window, off int64, salt uint32) (int64, error) {
	b, err := w.at(off, recordHeader)
	if err != nil {
		return 0, err
	}
	if len(b) < recordHeader || binary.LittleEndian.Uint16(b) != recordMagic {
		return align, nil
	}
	// Look at the number before the checksum: bytes that clients made up must
	// not cost a checksum of megabytes at every step.
	seq := binary.LittleEndian.Uint64(b[8:])
	if seq <= e.seq || seq-e.seq > uint64(w.limit)/recordHeader {
		return align, nil
	}
	f, err := w.frame(off, salt)
	if errors.Is(err, errInvalid) {
		return align, nil
	} else if err != nil {
		return 0, err
	}
	e.provenBehind = max(e.provenBehind, f.durable)
	if f.Kind == Append {
		e.zxidBehind = max(e.zxidBehind, f.Zxid)
	}
	return int64(f.size), nil
}

// zeroBlock is compared with; nobody writes it.
var zeroBlock [4096]byte

func allZero(b []byte) bool { return bytes.Equal(b, zeroBlock[:len(b)]) }
