package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// world is the whole tree of one server, but for /zookeeper/config: it has the
// addresses that the server's own file gives, and here these differ.
type world struct {
	server int
	nodes  map[string]process.Node
}

// readWorld walks the tree of a server, behind a sync.
func readWorld(s *server) (*world, error) {
	c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 10_000}, answerTime)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.do(&op{code: jute.OpSync, path: "/"}); err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	nodes, err := c.Walk()
	if err != nil {
		return nil, err
	}
	delete(nodes, "/zookeeper/config")
	return &world{s.id, nodes}, c.do(&op{code: jute.OpCloseSession})
}

// difference returns where two worlds differ, or nothing.
func (w *world) difference(v *world) string {
	for _, p := range slices.Sorted(maps.Keys(w.nodes)) {
		a := w.nodes[p]
		b, ok := v.nodes[p]
		switch {
		case !ok:
			return fmt.Sprintf("%s is on server %d (%+v) and not on server %d", p, w.server, a, v.server)
		case a.Data != b.Data || a.Stat != b.Stat:
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
			list = append(list, &op{client: -w.server, code: jute.OpGetData, path: p, got: n.Data, stat: n.Stat, zxid: n.Reply, state: done, conn: &connLog{server: w.server}})
		}
	}
	return list
}

// below returns the persistent nodes below a path.
func (w *world) below(prefix string) map[string]process.Node {
	part := make(map[string]process.Node)
	for p, n := range w.nodes {
		if strings.HasPrefix(p, prefix+"/") && n.Stat.EphemeralOwner == 0 {
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
			f.add("server %d: %s is there as of %v, and was deleted: %v", w.server, p, n.Stat.Mzxid, last)
		}
	}
	for p, n := range w.nodes {
		owner := n.Stat.EphemeralOwner
		if life := l.h.lives[owner]; life != nil && (life.closed != 0 || life.expired != 0) {
			f.add("server %d: %s is there, and its session %v has ended", w.server, p, owner)
		}
	}
	return f
}
