package crash

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// world is all that a server has, as one client sees it.
type world struct {
	nodes map[string]process.Node // by path
	zxid  jute.Zxid               // at the end of the reading
}

// world reads the whole tree, again and again until nothing has changed meanwhile:
// sessions may expire.
func (s *server) world() (*world, error) {
	s.T.Helper()
	for {
		c := s.connect()
		if err := c.ping(); err != nil {
			return nil, err
		}
		before := c.lastZxid
		w, err := c.readWorld()
		after := s.connect()
		if err := after.ping(); err != nil {
			return nil, err
		}
		c.Close()
		after.Close()
		if after.lastZxid == before+1 { // its session
			return w, err
		}
	}
}

// readWorld walks the whole tree.
func (c *client) readWorld() (*world, error) {
	nodes, err := c.Walk()
	if err != nil {
		return nil, err
	}
	r, err := c.call(jute.OpGetAllChildrenNumber, &jute.PathRequest{Path: "/"})
	if err == nil {
		err = r.err()
	}
	if err != nil {
		return nil, err
	}
	var n jute.GetAllChildrenNumberResponse
	d := jute.NewDecoder(r.body)
	n.Decode(&d)
	if int(n.Total)+1 != len(nodes) { // without the root
		return nil, fmt.Errorf("server counts %d nodes below the root, a walk finds %d", n.Total, len(nodes)-1)
	}
	return &world{nodes, r.Zxid}, d.Err()
}

// of returns the part of the world that belongs to a worker, as its model has
// it.
func (w *world) of(k *worker) map[string]found {
	part := make(map[string]found)
	mark := strconv.Itoa(k.id) + "."
	for p, f := range w.nodes {
		switch {
		case p == k.root || strings.HasPrefix(p, k.root+"/"):
			part[p] = found{p, f.Data, f.Stat}
		case strings.HasPrefix(p, seqParent+"/") && strings.HasPrefix(f.Data, mark):
			part[f.Data] = found{p, f.Data, f.Stat}
		}
	}
	return part
}

// checkSequence checks that the numbers of sequential nodes grow with their
// zxids, and that their parent has counted what the workers know of. seen has
// the zxid of each number ever seen.
func (w *world) checkSequence(workers []*worker, seen map[string]jute.Zxid) error {
	for p, f := range w.nodes {
		if !strings.HasPrefix(p, seqParent+"/") {
			continue
		}
		if before, ok := seen[p]; ok && before != f.Stat.Czxid {
			return fmt.Errorf("%s was made at %v, and again at %v", p, before, f.Stat.Czxid)
		}
		seen[p] = f.Stat.Czxid
	}
	made, gone := 0, 0
	for _, k := range workers {
		made += k.acked.made
		gone += k.acked.gone
	}
	stat := w.nodes[seqParent].Stat
	if want := int32(made + gone); stat.Cversion != want || stat.NumChildren != int32(made-gone) {
		return fmt.Errorf("%s has cversion %d and %d children, want %d and %d", seqParent, stat.Cversion, stat.NumChildren, want, made-gone)
	}
	return nil
}
