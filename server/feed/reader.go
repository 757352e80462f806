package feed

import "github.com/zkd-project/zkd/jute"

// Reader yields the changes of a znode and of those below it, as far as it may read them, and says where
// transactions end: another reader can begin there. It is not safe for concurrent use.
type Reader struct {
	path    string
	allowed func([]jute.ACL) bool
	cursor  *Cursor
	held    *jute.Change // not yielded yet: it may be the last one of its transaction
}

// Reader returns a reader of the changes after a zxid, which sees what allowed reports of an ACL list
// that it may read. The error is a *jute.CompactedError.
func (h *History) Reader(path string, after jute.Zxid, allowed func([]jute.ACL) bool) (*Reader, error) {
	cursor, err := h.from(after)
	if err != nil {
		return nil, err
	}
	return &Reader{path: path, allowed: allowed, cursor: cursor}, nil
}

// More returns a channel that is closed when there may be more to read.
func (r *Reader) More() <-chan struct{} { return r.cursor.history.More(r.cursor.Zxid()) }

// Next calls yield for some of the changes that follow, without waiting for any. ends says that nothing
// else of the change's transaction follows. The error is a *jute.CompactedError.
func (r *Reader) Next(yield func(c *jute.Change, ends bool)) error {
	read, longest := 0, r.cursor.history.part(frameBytes)
	current := jute.Zxid(0)
	err := r.cursor.Next(func(record Record) bool {
		zxid := record.Zxid()
		if zxid != current && read >= longest {
			takes := false
			return takes || batchLost.Planted()
		}
		current = zxid
		read += record.Len()
		if !Below(r.path, record.Path(), true) {
			return true
		}
		sight := record.Sight(r.allowed)
		if sight == Nothing {
			return true
		}
		if r.held != nil {
			last := zxid != r.held.Zxid
			last = last || endsEarly.Planted()
			yield(r.held, last)
		}
		change := record.Change()
		if sight == Loss {
			change.Stat = jute.Stat{}
		}
		r.held = &change
		return true
	})
	whole := r.held != nil && r.held.Zxid <= r.cursor.Zxid()
	if r.held != nil && (whole || err != nil) {
		last := whole
		last = last && !endForgotten.Planted()
		yield(r.held, last)
		r.held = nil
	}
	return err
}
