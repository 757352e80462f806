package wal

import (
	"encoding/binary"
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// state is the result of the records up to some point, except the entries themselves. Each
// segment's header holds the state at its beginning, so that earlier segments can be
// deleted.
//
// Invariant: base.Zxid <= hint <= last.
type state struct {
	ident   []byte
	promise []byte
	notes   []byte
	base    SnapRef // the newest; Name is empty if there is none
	baseSeq uint64  // of its record
	last    jute.Zxid
	hint    jute.Zxid
}

// apply updates the state for record number seq. If it returns an error, which matches
// ErrDiscontinuous or ErrTooLarge, the state is unchanged.
func (s *state) apply(r *Record, seq uint64) error {
	if r.Prev != s.last {
		return fmt.Errorf("%v %s after %s, but the last entry is %s: %w", r.Kind, r.Zxid, r.Prev, s.last, ErrDiscontinuous)
	}
	switch r.Kind {
	case Append:
		if r.Zxid <= s.last {
			return s.misplaced(r)
		}
		s.last = r.Zxid
	case Promise:
		if len(r.Payload) > maxPromise {
			return tooLarge(r)
		}
		s.promise = append(s.promise[:0:0], r.Payload...)
	case Truncate:
		// Committed entries stay, and a snapshot contains only committed ones.
		if r.Zxid > s.last || r.Zxid < s.base.Zxid || r.Zxid < s.hint {
			return s.misplaced(r)
		}
		s.last = r.Zxid
	case Snapshot:
		return s.applySnapRef(r, seq)
	case CommitHint:
		if r.Zxid > s.last {
			return s.misplaced(r)
		}
		s.hint = max(s.hint, r.Zxid)
	case Forget:
		if r.Zxid > s.base.Zxid {
			return s.misplaced(r)
		}
	case Ident:
		if len(r.Payload) > MaxIdent {
			return tooLarge(r)
		}
		s.ident = append(s.ident[:0:0], r.Payload...)
	case Notes:
		if len(r.Payload) > MaxNotes {
			return tooLarge(r)
		}
		s.notes = append(s.notes[:0:0], r.Payload...)
	default:
		return fmt.Errorf("record of %v: %w", r.Kind, errInvalid) // decodeFrame refuses it
	}
	return nil
}

func (s *state) applySnapRef(r *Record, seq uint64) error {
	ref, err := decodeSnapRef(r.Zxid, r.Payload)
	if err != nil {
		return err
	}
	switch {
	case ref.Installed && ref.Zxid < s.hint:
		return s.misplaced(r) // it would drop committed entries
	case ref.Installed:
		s.last = ref.Zxid
	case ref.Zxid > s.last:
		return s.misplaced(r)
	case ref.Zxid < s.base.Zxid:
		return nil // it was being written when a newer one was installed
	}
	s.base, s.baseSeq = ref, seq
	s.hint = max(s.hint, ref.Zxid) // a snapshot contains only committed entries
	return nil
}

func (s *state) misplaced(r *Record) error {
	return fmt.Errorf("%v %s in a history from %s to %s, committed to %s: %w", r.Kind, r.Zxid, s.base.Zxid, s.last, s.hint, ErrDiscontinuous)
}

func tooLarge(r *Record) error {
	return fmt.Errorf("%v with %d bytes: %w", r.Kind, len(r.Payload), ErrTooLarge)
}

// append encodes the state: zxids, then length-prefixed byte strings. Format 1 has no
// notes.
func (s *state) append(b []byte, format uint32) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(s.last))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.hint))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.base.Zxid))
	b = binary.LittleEndian.AppendUint64(b, s.baseSeq)
	b = appendBytes(b, s.ident)
	b = appendBytes(b, s.promise)
	var ref []byte
	if s.base.Name != "" {
		ref = s.base.Record().Payload
	}
	b = appendBytes(b, ref)
	if format > 1 {
		b = appendBytes(b, s.notes)
	}
	return b
}

func appendBytes(b, p []byte) []byte {
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(p))), p...)
}

const stateFixed = 32

// decodeState is the inverse of append.
func decodeState(b []byte, format uint32) (state, error) {
	bad := invalidf("state of %d bytes", len(b))
	if len(b) < stateFixed {
		return state{}, bad
	}
	s := state{
		last:    jute.Zxid(binary.LittleEndian.Uint64(b)),
		hint:    jute.Zxid(binary.LittleEndian.Uint64(b[8:])),
		baseSeq: binary.LittleEndian.Uint64(b[24:]),
	}
	zxid := jute.Zxid(binary.LittleEndian.Uint64(b[16:]))
	rest := b[stateFixed:]
	var ref []byte
	parts := []*[]byte{&s.ident, &s.promise, &ref, &s.notes}
	if format == 1 {
		parts = parts[:3]
	}
	for _, dst := range parts {
		if len(rest) < 2 || len(rest)-2 < int(binary.LittleEndian.Uint16(rest)) {
			return state{}, bad
		}
		n := int(binary.LittleEndian.Uint16(rest))
		if n > 0 {
			*dst = append([]byte(nil), rest[2:2+n]...)
		}
		rest = rest[2+n:]
	}
	if len(rest) > 0 || len(s.ident) > MaxIdent || len(s.promise) > maxPromise || len(s.notes) > MaxNotes {
		return state{}, bad
	}
	if len(ref) == 0 {
		if zxid != 0 || s.baseSeq != 0 {
			return state{}, bad
		}
	} else {
		var err error
		if s.base, err = decodeSnapRef(zxid, ref); err != nil {
			return state{}, err
		}
	}
	if s.hint > s.last || s.base.Zxid > s.hint {
		return state{}, bad
	}
	return s, nil
}
