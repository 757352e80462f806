package wal

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/zkd-project/zkd/jute"
)

// end is the end of the records of the last segment, and what lies after it.
type end struct {
	offset  int64
	seq     uint64 // of the last record before it
	durable uint64 // the highest record proven durable, at most seq
	dirty   bool   // not all bytes after the end are zero
	// bad is set if the record at offset had been durable: the log is corrupt.
	bad           error
	provenDurable uint64
	zxidAfter     jute.Zxid
}

// findEnd walks the records of the last segment up to the first place without one. The
// bytes after that place tell whether a crash left this end or it is damage:
//
//   - A later record that says that the missing one had been synced: damage.
//   - A whole record at the place itself that does not belong there: damage, since each
//     place of a segment is written only once.
//   - Anything else was written by batches whose fsync never completed. Parts of them may
//     have reached the disk in any order: a torn end.
//
// A commit hint proves no more than its own durable number does, since a written hint is
// never ahead of what is durable.
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
			return e, e.findDurableAfter(w, h.crc, err)
		}
		e.offset += int64(f.size)
		e.seq, crc = f.seq, f.crc
		e.durable = max(e.durable, f.durable)
	}
}

// findDurableAfter searches the rest of the segment for records that prove that the record
// missing at e.offset had been durable.
func (e *end) findDurableAfter(w *window, salt uint32, cause error) error {
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
	if e.provenDurable > e.seq && e.bad == nil {
		e.bad = cause
	}
	return nil
}

// inspect looks for a record at off, evaluates it if there is one, and returns the distance
// to the next place to look at.
func (e *end) inspect(w *window, off int64, salt uint32) (int64, error) {
	b, err := w.at(off, recordHeader)
	if err != nil {
		return 0, err
	}
	if len(b) < recordHeader || binary.LittleEndian.Uint16(b) != recordMagic {
		return align, nil
	}
	// Check the number before the checksum: bytes made up by clients must not cost a checksum of
	// megabytes at every step.
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
	e.provenDurable = max(e.provenDurable, f.durable)
	if f.Kind == Append {
		e.zxidAfter = max(e.zxidAfter, f.Zxid)
	}
	return int64(f.size), nil
}

// zeroBlock is for comparison; it is never written.
var zeroBlock [4096]byte

func allZero(b []byte) bool { return bytes.Equal(b, zeroBlock[:len(b)]) }
