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
	if s.cfg.Views == 0 || c.id%s.cfg.Views != 0 || s.behindEdge(c) || !s.percent(25) || slices.ContainsFunc(c.inFlight, func(r request) bool { return r.kind == reqView }) {
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

// sentPage handles the answer to a request for a page.
func (s *Sim) sentPage(n *node, c *conn, req *request, r *reply, body []byte) {
	var p jute.SubtreePageRequest
	d := jute.NewAliasDecoder(req.body)
	p.Decode(&d)
	var answer jute.SubtreePageResponse
	if r.err == 0 {
		d := jute.NewAliasDecoder(body)
		answer.Zxid, answer.View = jute.Zxid(d.Int64()), d.Int64()
		r.frame = bytes.Clone(body)
	}
	if p.View == 0 {
		r.view = s.viewOpened(n, c, p.Path, &answer, r.err)
	} else {
		r.view = s.viewRead(n, c, &p, r.err)
	}
	if r.view != nil && r.err == 0 {
		r.view.over = answer.View == 0
	}
}

// viewedBytes is at least the length of the name and data of a node that is not large.
const viewedBytes = 64

// viewRead handles the outcome of a request for the next page of a view: P2.
func (s *Sim) viewRead(n *node, c *conn, p *jute.SubtreePageRequest, code jute.Code) (g *viewGhost) {
	now := n.localTime()
	if i := slices.IndexFunc(c.views, func(g *viewGhost) bool { return g.number == p.View && g.root == p.Path && !g.over }); i >= 0 {
		g = c.views[i]
	}
	switch ends := g == nil || now-g.read >= s.viewLimits().Life; {
	case code == 0 && ends:
		s.fail("P2", "server %d serves view %d of %s to client %d, which has none, or not for so long: %+v", n.id, p.View, p.Path, c.client, g)
	case code == 0 || ends:
	case 4*(s.ghost.recordsAfter(n.applied)-s.ghost.recordsAfter(g.zxid))*(datatree.SavedBytes+viewedBytes+s.cfg.BigBytes) < s.cfg.ViewBytes: // each changes up to 4 nodes
		s.fail("P2", "server %d does not serve view %d of %s to client %d: %v", n.id, p.View, p.Path, c.client, code)
	}
	switch {
	case g == nil:
	case code == 0:
		g.read = now
	default:
		g.over = true
		s.stats.ViewsLost++
	}
	return g
}

// viewOpened handles the outcome of a request for the first page, and reads what the view must show.
func (s *Sim) viewOpened(n *node, c *conn, root string, p *jute.SubtreePageResponse, code jute.Code) *viewGhost {
	now := n.localTime()
	node, ok := n.tree.Get(root)
	if code == jute.ErrNoAuth && ok && !s.readable(node.ACL) {
		return nil
	}
	if full := s.openViews(now, n.conns...) >= maxViews; code == 0 && full {
		s.displaced(n, c, now)
	}
	switch {
	case code == jute.ErrThrottledOp && s.openViews(now, n.conns...) < maxViews && s.openViews(now, c) < maxViews-1, code == jute.ErrNoNode && ok:
		s.fail("P2", "server %d opens no view of %s: %v", n.id, root, code)
	case code != 0:
		return nil
	case p.Zxid != n.applied:
		s.fail("P1", "server %d opens a view of %v at %v", n.id, p.Zxid, n.applied)
	}
	s.stats.Views++
	g := &viewGhost{number: p.View, root: strings.Clone(root), zxid: p.Zxid, read: now, nodes: s.subtreeOf(n.tree, nil, root, "")}
	c.views = append(c.views, g)
	return g
}

// displaced notes the view that has ended for one that a connection has opened. It may be of a connection only
// that has more of them, by itself and with others of its address.
func (s *Sim) displaced(n *node, newcomer *conn, now time.Duration) {
	of := make(map[string]int)
	for _, c := range n.conns {
		of[addressOf(c.client)] += s.openViews(now, c)
	}
	had := s.openViews(now, newcomer)
	for _, c := range n.conns {
		address, most := addressOf(c.client), of[addressOf(newcomer.client)]
		if address != addressOf(newcomer.client) {
			most++
		}
		if s.openViews(now, c)*of[address] <= (had+1)*most {
			continue
		}
		for _, g := range c.views {
			if !g.over && !n.lines.Views.Has(g.number) {
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
