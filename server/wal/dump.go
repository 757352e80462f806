package wal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/zkd-project/zkd/internal/vfs"
)

// Dump describes the log in dir, a line for each segment and record, for
// operators. It shows payloads by their length only, unless describe is given:
// that renders the payload of a record, without a line break. Dump changes
// nothing, may be used on a log that does not open, and goes on behind damage
// with the next segment. It returns the first error of w or of reading files.
func Dump(w io.Writer, fsys vfs.FS, dir string, describe func(Record) string) error {
	firsts, leftovers, err := listSegments(fsys, dir)
	if err != nil {
		return err
	}
	for i, first := range firsts {
		var next uint64
		if i+1 < len(firsts) {
			next = firsts[i+1]
		}
		if err := dumpSegment(w, fsys, dir, first, next, describe); err != nil {
			return fmt.Errorf("dump log: %w", err)
		}
	}
	for _, name := range leftovers {
		if _, err := fmt.Fprintf(w, "%s: unfinished\n", filepath.Base(name)); err != nil {
			return err
		}
	}
	return nil
}

// dumpSegment describes a segment; records from next on do not count, if next is
// not 0.
func dumpSegment(out io.Writer, fsys vfs.FS, dir string, first, next uint64, describe func(Record) string) error {
	f, err := fsys.Open(filepath.Join(dir, segmentName(first)))
	if err != nil {
		return err
	}
	defer f.Close()
	h, err := readHeader(f, first)
	if err != nil {
		_, err = fmt.Fprintf(out, "%s: DAMAGED: %v\n", segmentName(first), err)
		return err
	}
	st := &h.state
	_, err = fmt.Fprintf(out, "%s: %d bytes, behind %s, commit hint %s, snapshot %q at %s, identity of %d bytes, promise of %d\n",
		segmentName(first), h.size, st.last, st.hint, st.base.Name, st.base.Zxid, len(st.ident), len(st.promise))
	if err != nil {
		return err
	}
	w := window{f: f, limit: h.size}
	seq, crc, off := first, h.prevCRC, int64(headerSize)
	for ; ; seq++ {
		r, err := w.expect(off, h.crc, seq, crc)
		if err != nil {
			return dumpEnd(out, &w, &h, seq, off, next, err)
		}
		note := ""
		if next > 0 && seq >= next {
			note = " (does not count)"
		}
		text := fmt.Sprintf("%d bytes", len(r.Payload))
		if describe != nil {
			text = describe(r.Record)
		}
		if _, err := fmt.Fprintf(out, "%10d @%-9d synced=%d %s %s after %s: %s%s\n",
			seq, off, r.durable, kindText(&r.Record), r.Zxid, r.Prev, text, note); err != nil {
			return err
		}
		off += int64(r.size)
		crc = r.crc
	}
}

// kindText names the kind of a record, and the type of an entry that has one.
func kindText(r *Record) string {
	if r.Type == 0 {
		return r.Kind.String()
	}
	return fmt.Sprintf("%s(type %d)", r.Kind, r.Type)
}

// dumpEnd says what the end of a segment is.
func dumpEnd(out io.Writer, w *window, h *header, seq uint64, off int64, next uint64, cause error) error {
	e := end{offset: off, seq: seq - 1}
	if errors.Is(cause, errOutOfPlace) {
		e.bad = cause
	} else if !errors.Is(cause, errInvalid) {
		return cause
	}
	if err := e.lookBehind(w, h.crc, cause); err != nil {
		return err
	}
	var err error
	switch {
	case next > 0 && seq < next || e.bad != nil && (next == 0 || seq < next):
		_, err = fmt.Fprintf(out, "%10d @%-9d DAMAGED: %v\n", seq, off, cause)
	case e.dirty:
		_, err = fmt.Fprintf(out, "%10s @%-9d incomplete records, never acknowledged\n", "", off)
	}
	return err
}
