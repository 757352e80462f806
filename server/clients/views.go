package clients

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// The bounds of what views cost: each keeps the former version of every node that changes, at some 200
// bytes and its data.
const (
	maxViews    = 4
	viewLife    = time.Minute
	viewChanges = 200_000
)

// views are the subtrees that clients are reading, each at one zxid. They are used by holders of
// the tree's lock for reading.
type views struct {
	mu   sync.Mutex
	list []*view
	last int64 // number
}

// view is a subtree that a connection reads, page by page.
type view struct {
	*datatree.Subtree
	number int64
	c      *conn
	root   string
	began  time.Duration
}

// get returns the view that a request is about, which it opens if need be.
func (v *views) get(r *read, p *jute.SubtreePageRequest) (*view, error) {
	now := r.now()
	v.closeLocked(func(w *view) bool { return w.Lost() || now-w.began >= viewLife })
	if p.View != 0 {
		i := slices.IndexFunc(v.list, func(w *view) bool { return w.number == p.View && w.c == r.c && w.root == p.Path })
		if i < 0 {
			return nil, jute.ErrOperationTimeout
		}
		return v.list[i], nil
	}
	if _, err := r.readable(p.Path); err != nil {
		return nil, err
	}
	if len(v.list) == maxViews {
		return nil, jute.ErrThrottledOp
	}
	subtree, _ := r.state.Tree.FreezeBelow(p.Path, viewChanges)
	v.last++
	w := &view{subtree, v.last, r.c, strings.Clone(p.Path), now}
	v.list = append(v.list, w)
	return w, nil
}

// closeLocked closes the views that are over.
func (v *views) closeLocked(over func(*view) bool) {
	v.list = slices.DeleteFunc(v.list, func(w *view) bool {
		if over(w) {
			w.Close()
			return true
		}
		return false
	})
}

// drop closes the views of a connection that has ended.
func (v *views) drop(c *conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closeLocked(func(w *view) bool { return w.c == c })
}

// subtreePage lists a part of a subtree as it was when its first page was read.
func (r *read) subtreePage() error {
	var p jute.SubtreePageRequest
	d := r.body()
	p.Decode(&d)
	switch {
	case d.Err() != nil:
		return jute.ErrMarshalling
	case p.Show != jute.ShowStats && p.Show != jute.ShowData && (p.Show != jute.ShowNames || p.View == 0):
		return jute.ErrBadArguments
	}
	r.views.mu.Lock()
	defer r.views.mu.Unlock()
	w, err := r.views.get(r, &p)
	if err != nil {
		return err
	}
	b := jute.AppendInt64(r.begin(), w.Zxid())
	start, more := len(b), false
	if p.Show == jute.ShowNames { // the client needs no more
		b = jute.AppendInt32(jute.AppendInt64(b, int64(0)), int32(0))
	} else {
		page := *r // so that r does not escape: it would be allocated for each read
		b, more = page.appendSubtree(b, w, p.Show)
	}
	number := w.number
	if !more {
		number = 0
		r.views.closeLocked(func(other *view) bool { return other == w })
	}
	binary.BigEndian.PutUint64(b[start:], uint64(number))
	bytes := len(b) - start
	r.end(b)
	r.counted(p.Path, bytes)
	return nil
}

// appendSubtree appends the number of a view, which is yet to be set, and the nodes that come next.
func (r *read) appendSubtree(b []byte, w *view, show int32) (_ []byte, more bool) {
	start, count := len(b), 0
	b = jute.AppendInt32(jute.AppendInt64(b, int64(0)), int32(0))
	room := r.cfg.MaxBuffer/2 - replyHeader - 8 - (len(b) - start)
	above := len(strings.TrimSuffix(w.root, "/"))
	more = w.Walk(func(path []byte, n *datatree.Node, data []byte) datatree.Visited {
		end := len(b)
		name := ""
		if len(path) > len(w.root) {
			name = string(path[above:])
		}
		readable := r.allowed(n.ACL, jute.PermRead) == nil
		b = appendNode(b, name, n, data, readable, show, room)
		switch {
		case count == maxPage || len(b)-start > room && count > 0:
			b = b[:end]
			return datatree.Again
		case !readable:
			count++
			return datatree.Skip
		}
		count++
		return datatree.Enter
	})
	binary.BigEndian.PutUint32(b[start+8:], uint32(count))
	return b, more
}
