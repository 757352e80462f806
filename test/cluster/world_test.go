package cluster

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// node is what a server has at a path.
type node struct {
	data  string
	stat  jute.Stat
	reply jute.Zxid // of the read
}

// world is the whole tree of one server, but for /zookeeper/config: it has the
// addresses that the server's own file gives, and here these differ.
type world struct {
	server int
	nodes  map[string]node
}

// readWorld walks the tree of a server, behind a sync.
func readWorld(s *server) (*world, error) {
	c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 10_000}, patience/4)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.do(&op{code: jute.OpSync, path: "/"}); err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	w := &world{server: s.id, nodes: make(map[string]node)}
	for level := []string{"/"}; len(level) > 0; {
		if level, err = c.readLevel(level, w); err != nil {
			return nil, err
		}
	}
	return w, c.do(&op{code: jute.OpCloseSession})
}

// readLevel reads the nodes of paths, and returns the paths of their children.
func (c *conn) readLevel(paths []string, w *world) (children []string, err error) {
	for piece := range slices.Chunk(paths, 100) {
		for _, p := range piece {
			c.put(c.nextXid(), jute.OpGetData, &jute.PathWatchRequest{Path: p})
			c.put(c.nextXid(), jute.OpGetChildren2, &jute.PathWatchRequest{Path: p})
		}
		if err := c.flush(); err != nil {
			return nil, err
		}
		for _, p := range piece {
			names, err := c.readNode(p, w)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
			children = append(children, names...)
		}
	}
	return children, nil
}

// readNode takes the replies for one node, which may have gone meanwhile.
func (c *conn) readNode(p string, w *world) (children []string, err error) {
	data, list := op{code: jute.OpGetData}, op{code: jute.OpGetChildren2}
	for _, o := range []*op{&data, &list} {
		h, body, err := c.next()
		if err == nil {
			err = o.answer(h, body)
		}
		if err != nil {
			return nil, err
		}
	}
	if data.err == jute.ErrNoNode || list.err == jute.ErrNoNode {
		return nil, nil
	}
	if err := errors.Join(code(data.err), code(list.err)); err != nil {
		return nil, err
	}
	if p != "/zookeeper/config" {
		w.nodes[p] = node{data.got, data.stat, data.zxid}
	}
	for _, name := range list.names {
		children = append(children, path.Join(p, name))
	}
	return children, nil
}

// code returns a reply's code as an error.
func code(c jute.Code) error {
	if c == 0 {
		return nil
	}
	return c
}

// difference returns where two worlds differ, or nothing.
func (w *world) difference(v *world) string {
	for _, p := range slices.Sorted(maps.Keys(w.nodes)) {
		a := w.nodes[p]
		b, ok := v.nodes[p]
		switch {
		case !ok:
			return fmt.Sprintf("%s is on server %d (%+v) and not on server %d", p, w.server, a, v.server)
		case a.data != b.data || a.stat != b.stat:
			return fmt.Sprintf("%s is %+v on server %d and %+v on server %d", p, a, w.server, b, v.server)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(v.nodes)) {
		if _, ok := w.nodes[p]; !ok {
			return fmt.Sprintf("%s is on server %d (%+v) and not on server %d", p, v.server, v.nodes[p], w.server)
		}
	}
	return ""
}

// reads returns the part of a world below prefix as reads for the ledger.
func (w *world) reads(prefix string) (list []*op) {
	for p, n := range w.nodes {
		if strings.HasPrefix(p, prefix+"/") {
			list = append(list, &op{client: -w.server, code: jute.OpGetData, path: p, got: n.data, stat: n.stat, zxid: n.reply, state: done, conn: &connLog{server: w.server}})
		}
	}
	return list
}

// below returns the persistent nodes below a path.
func (w *world) below(prefix string) map[string]node {
	part := make(map[string]node)
	for p, n := range w.nodes {
		if strings.HasPrefix(p, prefix+"/") && n.stat.EphemeralOwner == 0 {
			part[p] = n
		}
	}
	return part
}

// checkPresence checks that the world has everything that the ledger knows to be
// there at the end, and nothing else.
func checkPresence(l *ledger, w *world) (f findings) {
	for p, facts := range l.facts {
		last := facts[len(facts)-1]
		n, there := w.nodes[p]
		switch {
		case there:
			// Which version is there, checkRead has seen.
		case last.kind != deleted && !l.vanished(p, l.ownerAt(p, last.zxid)):
			f.add("server %d: %s is lost: %v", w.server, p, last)
		}
		if there && last.kind == deleted {
			f.add("server %d: %s is there as of %v, and was deleted: %v", w.server, p, n.stat.Mzxid, last)
		}
	}
	for p, n := range w.nodes {
		owner := n.stat.EphemeralOwner
		if life := l.h.lives[owner]; life != nil && (life.closed != 0 || life.expired != 0) {
			f.add("server %d: %s is there, and its session %v has ended", w.server, p, owner)
		}
	}
	return f
}
