package wal

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
)

// Identity is the information about a log that is available without reading its records.
type Identity struct {
	// Exists is set if there is a log: at least one segment, or one that is about to replace the
	// segments that were set aside.
	Exists bool
	// Version is the format of the segment with the newest readable header, 0 for none.
	Version uint32
	// Ident is the identity in the newest readable header. It is nil if the headers of all
	// segments are damaged.
	Ident []byte
	// Blank is set if no record was ever written to the log.
	Blank bool
}

// Identify examines the log in dir and changes nothing. A missing directory has no log. The
// error is a *fault.Error if a header can't be read, or if a later version wrote it;
// damaged headers are skipped.
func Identify(fsys vfs.FS, dir string) (id Identity, err error) {
	firsts, leftovers, err := listSegments(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return id, nil
	} else if err != nil {
		return id, fault.IO(dir, err)
	}
	names := []string{}
	for _, first := range firsts {
		names = append(names, filepath.Join(dir, segmentName(first)))
	}
	if aside := filepath.Join(dir, asideName); slices.Contains(leftovers, aside) {
		firsts, names = []uint64{1}, []string{aside} // nothing else counts
	}
	id.Exists = len(names) > 0
	for i, name := range slices.Backward(names) {
		h, blank, err := identify(fsys, name, firsts[i])
		if err == nil {
			id.Version, id.Ident, id.Blank = h.version, h.state.ident, blank && len(names) == 1
			return id, nil
		} else if !errors.Is(err, errInvalid) {
			return id, err
		}
	}
	return id, nil
}

// identify reads the header of a segment, and checks whether any record follows it or
// precedes it.
func identify(fsys vfs.FS, name string, first uint64) (h header, blank bool, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return h, false, fault.IO(name, err)
	}
	defer f.Close()
	if h, err = readHeader(f, first); err != nil {
		return h, false, err
	}
	w := window{f: f, limit: h.size}
	b, err := w.at(headerSize, recordHeader)
	return h, first == 1 && len(h.state.promise) == 0 && allZero(b), err
}
