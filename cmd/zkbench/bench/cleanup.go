package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// rootPrefix begins the name of every run's root node.
const rootPrefix = "zb-"

// deleteBatch is the number of deletes in one multi. With paths of a few dozen
// bytes it stays far below the server's limit of a request.
const deleteBatch = 500

// cleanup deletes the root of the run with everything below it.
func (r *run) cleanup() error {
	r.begin(removing, 0, 0)
	if err := removeTree(r.admin, r.root); err != nil {
		return fmt.Errorf("clean up (%s is left on the server): %w", r.root, err)
	}
	return nil
}

// removeTree deletes path, its children and their children: runs make nothing
// deeper.
func removeTree(c *conn, path string) error {
	dirs, err := list(c, path)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		leaves, err := list(c, dir)
		if err != nil {
			return err
		}
		if err := remove(c, leaves); err != nil {
			return err
		}
	}
	if err := remove(c, dirs); err != nil {
		return err
	}
	return remove(c, []string{path})
}

// list returns the paths of the children of path.
func list(c *conn, path string) ([]string, error) {
	reply, err := c.call(jute.OpGetChildren, append(jute.AppendString(nil, path), 0))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	d := jute.NewDecoder(reply)
	n, _ := d.Count(4)
	paths := make([]string, 0, n)
	for range n {
		paths = append(paths, strings.TrimSuffix(path, "/")+"/"+d.String())
	}
	if d.Err() != nil {
		return nil, fmt.Errorf("list %s: %w", path, d.Err())
	}
	return paths, nil
}

// remove deletes nodes that have no children.
func remove(c *conn, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	s := &deletes{paths: paths, n: deleteBatch}
	j := &job{src: s, count: s.requests(), window: 4}
	if err := c.do(j); err != nil {
		return err
	}
	return j.outcome.err
}

// Clean deletes the roots that earlier runs left under the target's base, and
// returns their paths. It takes those of runs in progress with them.
func Clean(ctx context.Context, t Target) (roots []string, err error) {
	c, err := openConn(ctx, t.addr(0), connOptions{
		timeout: 30 * time.Second, window: 4, clock: newClock(), security: t.Security,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	nodes, err := list(c, max(t.Base, "/"))
	if err != nil {
		return nil, err
	}
	for _, path := range nodes {
		name := path[strings.LastIndexByte(path, '/')+1:]
		if len(name) != len(rootPrefix)+8 || !strings.HasPrefix(name, rootPrefix) {
			continue
		}
		if err := removeTree(c, path); err != nil {
			return roots, err
		}
		roots = append(roots, path)
	}
	return roots, nil
}
