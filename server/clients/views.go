package clients

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line/views"
	"github.com/zkd-project/zkd/server/datatree"
)

// viewBytes is for what a view keeps of changed nodes. Until then it may be read for as long as the client needs.
const viewBytes = 64 << 20

// openViews are the subtrees that clients are reading. They are used by holders of the tree's lock for
// reading.
type openViews struct {
	mu sync.Mutex
	views.Table[*conn]
}

func (v *openViews) setLimits(l views.Limits) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Limits = l
}

func (v *openViews) usage() views.Usage {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.Usage()
}

// drop closes the views of a connection that has ended.
func (v *openViews) drop(c *conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Drop(c)
}

// tickViews closes the views that are over, as their clients may never ask for more of them.
func (s *Clients) tickViews(now time.Duration) {
	s.state.RLock()
	defer s.state.RUnlock()
	s.views.mu.Lock()
	defer s.views.mu.Unlock()
	s.views.Tick(now)
}

// viewOf returns the view that a request is about, which it opens if need be.
func (r *read) viewOf(p *jute.SubtreePageRequest) (*views.View[*conn], error) {
	if p.View != 0 {
		return r.views.Get(p.View, p.Path, r.c, r.now())
	}
	if _, err := r.readable(p.Path); err != nil {
		return nil, err
	}
	return r.views.Open(r.state.Tree, p.Path, r.c, r.c.groups(), r.now())
}

// subtreePage lists a part of a subtree as it was when its first page was read.
func (r *read) subtreePage() error {
	var p jute.SubtreePageRequest
	d := r.body()
	p.Decode(&d)
	switch {
	case d.Err() != nil:
		return jute.ErrMarshalling
	case p.Show < jute.ShowNames || p.Show > jute.ShowACLs || p.Show == jute.ShowNames && p.View == 0:
		return jute.ErrBadArguments
	}
	r.views.mu.Lock()
	defer r.views.mu.Unlock()
	w, err := r.viewOf(&p)
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
	number := w.Number()
	if !more {
		number = 0
		r.views.Close(w)
	}
	binary.BigEndian.PutUint64(b[start:], uint64(number))
	bytes := len(b) - start
	r.end(b)
	r.counted(p.Path, bytes)
	return nil
}

// appendSubtree appends the number of a view, which is yet to be set, and the nodes that come next.
func (r *read) appendSubtree(b []byte, v *views.View[*conn], show int32) (_ []byte, more bool) {
	start, count := len(b), 0
	b = jute.AppendInt32(jute.AppendInt64(b, int64(0)), int32(0))
	room := r.cfg.MaxBuffer/2 - replyHeader - 8 - (len(b) - start)
	readable := func(acl []jute.ACL) bool { return r.allowed(acl, jute.PermRead) == nil }
	more = v.Walk(readable, func(name string, n *datatree.Node, data []byte, readable bool) bool {
		end := len(b)
		b = r.appendNode(b, name, n, data, readable, show, room)
		if count == maxPage || len(b)-start > room && count > 0 {
			b = b[:end]
			return false
		}
		count++
		return true
	})
	binary.BigEndian.PutUint32(b[start+8:], uint32(count))
	return b, more
}

// appendNode appends a node of a subtree. Data that would not fit into any page is left out.
func (r *read) appendNode(b []byte, name string, n *datatree.Node, data []byte, readable bool, show int32, room int) []byte {
	shown := jute.SubtreeNode{PageChild: pageChild(name, n, data, readable, show, room)}
	if readable && show == jute.ShowACLs {
		shown.ACL = r.shownACL(n.ACL)
	}
	start := len(b)
	if b = shown.Append(b); len(b)-start > room && shown.Data != nil { // together with the ACL
		shown.Err, shown.Data = jute.ErrMarshalling, nil
		b = shown.Append(b[:start])
	}
	return b
}
