package crash

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// world is all that a server has, as one client sees it.
type world struct {
	nodes map[string]found // by path
	total int              // as the server counts them
	zxid  jute.Zxid        // at the end of the reading
}

// world reads the whole tree, again and again until nothing has changed meanwhile:
// sessions may expire.
func (s *server) world() (*world, error) {
	s.t.Helper()
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
		c.close()
		after.close()
		if after.lastZxid == before+1 { // its session
			return w, err
		}
	}
}

// readWorld walks the whole tree.
func (c *client) readWorld() (*world, error) {
	w := &world{nodes: make(map[string]found)}
	level := []string{"/"}
	for len(level) > 0 {
		next, err := c.readLevel(level, w)
		if err != nil {
			return nil, err
		}
		level = next
	}
	body, err := c.do(jute.OpGetAllChildrenNumber, &jute.PathRequest{Path: "/"})
	if err != nil {
		return nil, err
	}
	var n jute.GetAllChildrenNumberResponse
	d := jute.NewDecoder(body)
	n.Decode(&d)
	w.total, w.zxid = int(n.Total), c.lastZxid
	if w.total+1 != len(w.nodes) { // without the root
		return nil, fmt.Errorf("server counts %d nodes below the root, a walk finds %d", w.total, len(w.nodes)-1)
	}
	return w, d.Err()
}

// readLevel reads the nodes of paths, a piece at a time, and returns the paths
// of their children.
func (c *client) readLevel(paths []string, w *world) (children []string, err error) {
	const piece = 100
	for len(paths) > 0 {
		n := min(piece, len(paths))
		for _, p := range paths[:n] {
			c.put(jute.OpGetData, &jute.PathWatchRequest{Path: p})
			c.put(jute.OpGetChildren2, &jute.PathWatchRequest{Path: p})
		}
		if err := c.flush(); err != nil {
			return nil, err
		}
		for _, p := range paths[:n] {
			if err := c.readNode(p, w, &children); err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
		}
		paths = paths[n:]
	}
	return children, nil
}

// readNode takes the replies for one node.
func (c *client) readNode(p string, w *world, children *[]string) error {
	var data jute.GetDataResponse
	var list jute.GetChildren2Response
	for _, into := range []interface{ Decode(d *jute.Decoder) }{&data, &list} {
		r, err := c.next()
		if err == nil {
			err = r.err()
		}
		if err != nil {
			return err
		}
		d := jute.NewDecoder(r.body)
		into.Decode(&d)
		if d.Err() != nil {
			return d.Err()
		}
	}
	if int(list.Stat.NumChildren) != len(list.Children) {
		return fmt.Errorf("numChildren is %d, and there are %d", list.Stat.NumChildren, len(list.Children))
	}
	w.nodes[p] = found{path: p, data: string(data.Data), stat: data.Stat}
	for _, name := range list.Children {
		*children = append(*children, path.Join(p, name))
	}
	return nil
}

// of returns the part of the world that belongs to a worker, as its model has
// it.
func (w *world) of(k *worker) map[string]found {
	part := make(map[string]found)
	mark := strconv.Itoa(k.id) + "."
	for p, f := range w.nodes {
		switch {
		case p == k.root || strings.HasPrefix(p, k.root+"/"):
			part[p] = f
		case strings.HasPrefix(p, seqParent+"/") && strings.HasPrefix(f.data, mark):
			part[f.data] = f
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
		if before, ok := seen[p]; ok && before != f.stat.Czxid {
			return fmt.Errorf("%s was made at %v, and again at %v", p, before, f.stat.Czxid)
		}
		seen[p] = f.stat.Czxid
	}
	made, gone := 0, 0
	for _, k := range workers {
		made += k.acked.made
		gone += k.acked.gone
	}
	stat := w.nodes[seqParent].stat
	if want := int32(made + gone); stat.Cversion != want || stat.NumChildren != int32(made-gone) {
		return fmt.Errorf("%s has cversion %d and %d children, want %d and %d", seqParent, stat.Cversion, stat.NumChildren, want, made-gone)
	}
	return nil
}
