package wal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
)

// Dump describes the log in dir for operators, with a line for each segment and record. It
// shows only the length of a payload, unless describe is given, which renders a record's
// payload without a line break. Dump changes nothing, works on a log that can't be opened,
// and continues after damage with the next segment. It returns the first error of w or of
// reading files.
func Dump(w io.Writer, fsys vfs.FS, dir string, describe func(Record) string) error {
	firsts, leftovers, err := listSegments(fsys, dir)
	if err != nil {
		return err
	}
	for i, first := range firsts {
		d := dump{out: w, describe: describe}
		if i+1 < len(firsts) {
			d.next = firsts[i+1]
		}
		if err := d.segment(fsys, filepath.Join(dir, segmentName(first)), first); err != nil {
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

// DumpSegment is like Dump for one segment, in a file of any name. It does not see the
// neighboring segments, so it does not know which of the last records count.
func DumpSegment(w io.Writer, fsys vfs.FS, path string, describe func(Record) string) error {
	d := dump{out: w, describe: describe}
	if err := d.segment(fsys, path, 0); err != nil {
		return fmt.Errorf("dump log: %w", err)
	}
	return nil
}

// HasSegments reports whether dir holds segments of a log.
func HasSegments(fsys vfs.FS, dir string) bool {
	firsts, _, err := listSegments(fsys, dir)
	return err == nil && len(firsts) > 0
}

// dump is the description of a segment in progress.
type dump struct {
	out      io.Writer
	describe func(Record) string
	next     uint64 // records from here on do not count; 0 if all do
}

// text describes the payload of a record.
func (d *dump) text(r Record) string {
	if d.describe == nil {
		return fmt.Sprintf("%d bytes", len(r.Payload))
	}
	return d.describe(r)
}

// segment describes the segment that begins with the record number first, or with the
// number that its header names if first is 0.
func (d *dump) segment(fsys vfs.FS, path string, first uint64) error {
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sc, err := newScan(f, first)
	if err != nil {
		what := ""
		if errors.Is(err, errInvalid) {
			what = "DAMAGED: "
		}
		_, err = fmt.Fprintf(d.out, "%s: %s%v\n", filepath.Base(path), what, err)
		return err
	}
	if err := d.header(filepath.Base(path), &sc.h); err != nil {
		return err
	}
	for {
		off := sc.off
		r, err := sc.next()
		if err != nil {
			return d.end(sc, err)
		}
		note := ""
		if d.next > 0 && r.seq >= d.next {
			note = " (does not count)"
		}
		if _, err := fmt.Fprintf(d.out, "%10d @%-9d synced=%d %s %s after %s: %s%s\n",
			r.seq, off, r.durable, kindText(&r.Record), r.Zxid, r.Prev, d.text(r.Record), note); err != nil {
			return err
		}
	}
}

// header describes the header of a segment.
func (d *dump) header(name string, h *header) error {
	st := &h.state
	_, err := fmt.Fprintf(d.out, "%s: format %d, %d bytes, follows segment %d, after %s, commit hint %s, snapshot %q at %s, identity: %s, promise: %s\n",
		name, h.version, h.size, h.prev, st.last, st.hint, st.base.Name, st.base.Zxid,
		d.text(Record{Kind: Ident, Payload: st.ident}), d.text(Record{Kind: Promise, Payload: st.promise}))
	return err
}

// kindText returns the kind of a record, and the type of an entry that has one.
func kindText(r *Record) string {
	if r.Type == 0 {
		return r.Kind.String()
	}
	return fmt.Sprintf("%s(type %d)", r.Kind, r.Type)
}

// end describes the end of a segment, where the next record could not be read because of cause.
func (d *dump) end(sc *scan, cause error) error {
	if fault.KindOf(cause) == fault.Newer {
		_, err := fmt.Fprintf(d.out, "%10d @%-9d %v\n", sc.seq, sc.off, cause)
		return err
	}
	e, damaged, err := sc.end(d.next, cause)
	switch {
	case err != nil:
	case damaged:
		_, err = fmt.Fprintf(d.out, "%10d @%-9d DAMAGED: %v\n", sc.seq, sc.off, cause)
	case e.dirty:
		_, err = fmt.Fprintf(d.out, "%10s @%-9d incomplete records, never acknowledged\n", "", sc.off)
	}
	return err
}
