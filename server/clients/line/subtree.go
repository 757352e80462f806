package line

import (
	"encoding/binary"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line/views"
	"github.com/zkd-project/zkd/server/datatree"
)

// TickViews closes the views that are over, as their clients may never ask for more of them. The tree
// is locked for reading.
func (s *Lines) TickViews(now time.Duration) {
	s.Views.Lock.Lock()
	defer s.Views.Lock.Unlock()
	s.Views.Tick(now)
}

// viewOf returns the view that a request is about, which it opens if need be.
func (r *read) viewOf(p *jute.SubtreePageRequest) (*views.View[*Line], error) {
	if p.View != 0 {
		return r.Views.Get(p.View, p.Path, r.l, r.now)
	}
	if _, err := r.readable(p.Path); err != nil {
		return nil, err
	}
	return r.Views.Open(r.State.Tree, p.Path, r.l, r.l.host.Groups(), r.now)
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
	r.Views.Lock.Lock()
	defer r.Views.Lock.Unlock()
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
		r.Views.Close(w)
	}
	binary.BigEndian.PutUint64(b[start:], uint64(number))
	bytes := len(b) - start
	r.end(b)
	r.counted(p.Path, bytes)
	return nil
}

// appendSubtree appends the number of a view, which is yet to be set, and the nodes that come next.
func (r *read) appendSubtree(b []byte, v *views.View[*Line], show int32) (_ []byte, more bool) {
	start, count := len(b), 0
	b = jute.AppendInt32(jute.AppendInt64(b, int64(0)), int32(0))
	limits := r.Server.Limits()
	most, room := limits.PageNodes, limits.Page-replyHeader-8-(len(b)-start)
	readable := func(acl []jute.ACL) bool { return r.allowed(acl, jute.PermRead) == nil }
	more = v.Walk(readable, func(name string, n *datatree.Node, data []byte, readable bool) bool {
		end := len(b)
		b = r.appendNode(b, name, n, data, readable, show, room)
		if count == most || len(b)-start > room && count > 0 {
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
