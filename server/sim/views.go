package sim

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line/views"
	"github.com/zkd-project/zkd/server/datatree"
)

// Views: clients page through subtrees while writes go on. A node has the table of views of servers. When a
// view is opened, the ghost reads what its pages must show: see P1 and P2.

// maxViews is how many views a node has at a time.
const maxViews = 4

// clientView is the view that a client pages through.
type clientView struct {
	root   string
	number int64 // 0 if it is to open one
	show   int32
}

// viewGhost is what the pages of a view must show.
type viewGhost struct {
	number int64
	root   string
	zxid   jute.Zxid
	read   time.Duration      // the last time
	nodes  []jute.SubtreeNode // with their data
	at     int                // the next one, at the client
	over   bool
}

// viewLimits returns the limits of a node's views.
func (s *Sim) viewLimits() views.Limits {
	return views.Limits{Views: maxViews, Life: time.Duration(s.cfg.ViewMs) * time.Millisecond, Bytes: s.cfg.ViewBytes}
}

// chooseView makes a request be for a page, now and then.
func (s *Sim) chooseView(c *client, req *request) bool {
	if s.cfg.Views == 0 || c.id%s.cfg.Views != 0 || !s.percent(25) || slices.ContainsFunc(c.inFlight, func(r request) bool { return r.kind == reqView }) {
		return false
	}
	v := &c.view
	switch {
	case v.number == 0, s.percent(3): // without ending the other one
		*v = clientView{root: pick(s.rng, "/", "/", "/tree", "/line", s.paths[s.rng.IntN(len(s.paths))])}
	case s.percent(3):
		v.show = jute.ShowNames
	}
	if v.number == 0 || v.show != jute.ShowNames {
		v.show = pick(s.rng, jute.ShowStats, jute.ShowData, jute.ShowACLs)
	}
	p := jute.SubtreePageRequest{Path: v.root, View: v.number, Show: v.show}
	req.kind, req.op, req.body = reqView, jute.OpSubtreePage, p.Append(nil)
	return true
}

// serveView serves a page, when it is answered.
func (s *Sim) serveView(n *node, c *conn, req *request, r *reply) {
	var p jute.SubtreePageRequest
	d := jute.NewDecoder(req.body)
	p.Decode(&d)
	v, g, err := s.viewOf(n, c, &p)
	if r.err = jute.CodeOf(err); err != nil {
		return
	}
	answer, more := jute.SubtreePageResponse{Zxid: v.Zxid(), View: v.Number()}, false
	if p.Show != jute.ShowNames {
		most := 1 + s.rng.IntN(4)
		more = v.Walk(s.readable, func(name string, node *datatree.Node, data []byte, readable bool) bool {
			if len(answer.Nodes) == most {
				return false
			}
			answer.Nodes = append(answer.Nodes, shown(name, node, data, readable))
			return true
		})
	}
	if g.over = !more; g.over {
		answer.View = 0
		n.views.Close(v)
	}
	r.frame, r.view = answer.Append(nil), g
}

// viewedBytes is at least the length of the name and data of a node that is not large.
const viewedBytes = 64

// viewOf returns the view that a request is about, which it opens if need be: P2.
func (s *Sim) viewOf(n *node, c *conn, p *jute.SubtreePageRequest) (v *views.View[*conn], g *viewGhost, err error) {
	now := time.Duration(n.localMs()) * time.Millisecond
	if p.View == 0 {
		return s.openView(n, c, p.Path, now)
	}
	if i := slices.IndexFunc(c.views, func(g *viewGhost) bool { return g.number == p.View && g.root == p.Path && !g.over }); i >= 0 {
		g = c.views[i]
	}
	v, err = n.views.Get(p.View, p.Path, c, now)
	switch ends := g == nil || now-g.read >= s.viewLimits().Life; {
	case err == nil && ends:
		s.fail("P2", "server %d serves view %d of %s to client %d, which has none, or not for so long: %+v", n.id, p.View, p.Path, c.client, g)
	case err == nil || ends:
	case 4*(s.ghost.recordsAfter(n.applied)-s.ghost.recordsAfter(g.zxid))*(datatree.SavedBytes+viewedBytes+s.cfg.BigBytes) < s.cfg.ViewBytes: // each changes up to 4 nodes
		s.fail("P2", "server %d does not serve view %d of %s to client %d: %v", n.id, p.View, p.Path, c.client, err)
	}
	switch {
	case g == nil:
	case err == nil:
		g.read = now
	default:
		g.over = true
		s.stats.ViewsLost++
	}
	return v, g, err
}

// openView opens a view, and reads what it must show.
func (s *Sim) openView(n *node, c *conn, root string, now time.Duration) (v *views.View[*conn], g *viewGhost, err error) {
	node, ok := n.tree.Get(root)
	if ok && !s.readable(node.ACL) {
		return nil, nil, jute.ErrNoAuth
	}
	full, had := s.openViews(now, n.conns...) >= maxViews, s.openViews(now, c)
	v, err = n.views.Open(n.tree, root, c, nil, now)
	if err == nil && full {
		s.displaced(n, had, now)
	}
	switch {
	case err == jute.ErrThrottledOp && s.openViews(now, n.conns...) < maxViews && s.openViews(now, c) < maxViews-1, err == jute.ErrNoNode && ok:
		s.fail("P2", "server %d opens no view of %s: %v", n.id, root, err)
	case err != nil:
		return nil, nil, err
	case v.Zxid() != n.applied:
		s.fail("P1", "server %d opens a view of %v at %v", n.id, v.Zxid(), n.applied)
	}
	s.stats.Views++
	g = &viewGhost{number: v.Number(), root: strings.Clone(root), zxid: v.Zxid(), read: now, nodes: s.subtreeOf(n.tree, nil, root, "")}
	c.views = append(c.views, g)
	return v, g, nil
}

// displaced notes the view that has ended for one that was opened, by a connection that had some. It may be
// of a connection only that has more of them.
func (s *Sim) displaced(n *node, had int, now time.Duration) {
	for _, c := range n.conns {
		if s.openViews(now, c) <= had+1 {
			continue
		}
		for _, g := range c.views {
			if !g.over && !n.views.Has(g.number) {
				g.over = true
				s.stats.ViewsLost++
			}
		}
	}
}

// openViews returns how many views of some connections may be open.
func (s *Sim) openViews(now time.Duration, conns ...*conn) (count int) {
	for _, c := range conns {
		for _, g := range c.views {
			if !g.over && now-g.read < s.viewLimits().Life {
				count++
			}
		}
	}
	return count
}

// subtreeOf appends the node at path, which is name below the root of a view, and those below it.
func (s *Sim) subtreeOf(tree *datatree.Tree, list []jute.SubtreeNode, path, name string) []jute.SubtreeNode {
	data, node, _ := tree.GetData(path)
	list = append(list, shown(name, &node, data, s.readable(node.ACL)))
	if !s.readable(node.ACL) {
		return list
	}
	above := strings.TrimSuffix(path, "/")
	for _, child := range slices.Sorted(tree.Children(path)) {
		list = s.subtreeOf(tree, list, above+"/"+child, name+"/"+child)
	}
	return list
}

// shown returns a node as pages show it.
func shown(name string, n *datatree.Node, data []byte, readable bool) jute.SubtreeNode {
	if !readable {
		return jute.SubtreeNode{PageChild: jute.PageChild{Name: name, Err: jute.ErrNoAuth}}
	}
	return jute.SubtreeNode{PageChild: jute.PageChild{Name: name, Stat: n.Stat(), Data: bytes.Clone(data)}, ACL: n.ACL}
}

// readable reports whether clients may read a node with an ACL.
func (s *Sim) readable(acl []jute.ACL) bool { return s.schemes.Allowed(acl, jute.PermRead, nil) }

// gotPage handles the answer to a client that pages: P1.
func (s *Sim) gotPage(c *client, r *reply) {
	v, g := &c.view, r.view
	if r.err != 0 || g == nil {
		*v = clientView{}
		return
	}
	s.stats.Pages++
	var p jute.SubtreePageResponse
	d := jute.NewDecoder(r.frame)
	p.Decode(&d)
	if d.Err() != nil || p.Zxid != g.zxid {
		s.fail("P1", "client %d gets a page of %s at %v, and the view is one of %v: %v", c.id, g.root, p.Zxid, g.zxid, d.Err())
	}
	for i := range p.Nodes {
		var want jute.SubtreeNode
		if g.at < len(g.nodes) {
			want = g.nodes[g.at]
		}
		if v.show < jute.ShowData {
			want.Data, p.Nodes[i].Data = nil, nil
		}
		if v.show < jute.ShowACLs {
			want.ACL, p.Nodes[i].ACL = nil, nil
		}
		if got := &p.Nodes[i]; !bytes.Equal(got.Append(nil), want.Append(nil)) {
			s.fail("P1", "client %d gets %+v in a page of %s at %v; the next node is %+v", c.id, got, g.root, g.zxid, want)
		}
		g.at++
	}
	if p.View == 0 && v.show != jute.ShowNames && g.at < len(g.nodes) {
		s.fail("P1", "client %d has all pages of %s at %v, without %+v", c.id, g.root, g.zxid, g.nodes[g.at:])
	}
	v.number = p.View
}
