package line

import (
	"encoding/binary"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// childrenPage lists children in the order of their names, as many as fit into a page.
func (r *read) childrenPage() error {
	var p jute.ChildrenPageRequest
	d := r.body()
	p.Decode(&d)
	switch {
	case d.Err() != nil:
		return jute.ErrMarshalling
	case p.Limit < 0 || p.Show < jute.ShowNames || p.Show > jute.ShowData:
		return jute.ErrBadArguments
	}
	node, err := r.readable(p.Path)
	if err != nil {
		return err
	}
	stat := node.Stat()
	b := stat.Append(jute.AppendInt64(r.begin(), r.zxid))
	start := len(b)
	if p.Show != jute.ShowNames {
		b = jute.AppendInt32(b, int32(0)) // names alone
	}
	page := *r // so that r does not escape: it would be allocated for each read
	b, more := page.appendPage(b, &p)
	if p.Show == jute.ShowNames {
		b = jute.AppendInt32(b, int32(0)) // children with more than their name
	}
	bytes := len(b) - start
	r.end(jute.AppendBool(b, more))
	r.counted(p.Path, bytes)
	return nil
}

// appendPage appends the vector of children, and reports whether there are more of them. It
// has one child at least, if there is any.
func (r *read) appendPage(b []byte, p *jute.ChildrenPageRequest) (_ []byte, more bool) {
	limit := r.Server.Limits().PageNodes
	if p.Limit > 0 {
		limit = min(limit, int(p.Limit))
	}
	start, count := len(b), 0
	const others = replyHeader + 8 + statBytes + 4 + 1 // the rest of the reply
	room := r.Server.Limits().Page - others
	b = jute.AppendInt32(b, int32(0))
	for child := range r.State.Tree.ChildrenAfter(p.Path, p.After) {
		end := len(b)
		if count < limit {
			b = r.appendChild(b, &child, p.Show, room)
		}
		if count == limit || len(b)-start > room && count > 0 {
			b, more = b[:end], true
			break
		}
		count++
	}
	binary.BigEndian.PutUint32(b[start:], uint32(count))
	return b, more
}

// appendChild appends a child of a page. Data that would not fit into any page is left out.
func (r *read) appendChild(b []byte, child *datatree.Child, show int32, room int) []byte {
	if show == jute.ShowNames {
		return jute.AppendString(b, child.Name)
	}
	node := child.Node()
	readable := r.allowed(node.ACL, jute.PermRead) == nil
	shown := pageChild(child.Name, &node, child.Data(), readable, show, room)
	return shown.Append(b)
}

// pageChild returns a node of a page. Data that would not fit into any page is left out.
func pageChild(name string, n *datatree.Node, data []byte, readable bool, show int32, room int) jute.PageChild {
	shown := jute.PageChild{Name: name}
	switch {
	case !readable:
		shown.Err = jute.ErrNoAuth
		return shown
	case show < jute.ShowData:
	case pageChildBytes+len(name)+int(n.DataLength) > room:
		shown.Err = jute.ErrMarshalling
	default:
		shown.Data = data
	}
	shown.Stat = n.Stat()
	return shown
}

// pageChildBytes is the length of a PageChild without its name and data, with the count of
// children.
const pageChildBytes = 4 + 4 + 4 + statBytes + 4
