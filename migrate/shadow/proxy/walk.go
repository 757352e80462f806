package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/shadow"
)

// Walk compares the trees of both ensembles, at and below a path. A znode that differs is read
// again: something may be changing it. auth are identities that may read all.
func (s *Shadow) Walk(ctx context.Context, apache []string, root string, auth []client.Auth) error {
	var w walker
	w.shadow = s
	for i, servers := range [][]string{apache, s.servers} {
		c, err := client.Connect(ctx, strings.Join(servers, ","), client.Options{Logger: client.NoLog, Auth: auth})
		if err != nil {
			return fmt.Errorf("walk: %w", err)
		}
		defer c.Close(ctx) // it was only read
		if err := c.Sync(ctx, "/"); err != nil {
			return fmt.Errorf("walk: %w", err)
		}
		w.sides[i] = c
	}
	return w.run(ctx, root)
}

// walker reads both trees, some znodes at a time.
type walker struct {
	shadow *Shadow
	sides  [2]*client.Client // Apache's, zkd's
}

// walkers is how many znodes are read at a time.
const walkers = 8

func (w *walker) run(ctx context.Context, root string) error {
	paths := []string{root}
	for len(paths) > 0 {
		batch := paths[max(0, len(paths)-walkers):]
		children, errs := make([][]string, len(batch)), make([]error, len(batch))
		var wg sync.WaitGroup
		for i, path := range batch {
			wg.Go(func() { children[i], errs[i] = w.znode(ctx, path) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("walk: %w", err)
		}
		paths = paths[:len(paths)-len(batch)]
		for _, list := range children {
			paths = append(paths, list...)
		}
	}
	return nil
}

// znode compares one znode, and returns the paths of the children that both sides have.
func (w *walker) znode(ctx context.Context, path string) (children []string, err error) {
	const attempts, delay = 3, 500 * time.Millisecond
	for attempt := 1; ; attempt++ {
		var nodes [2]shadow.Node
		var errs [2]error
		var wg sync.WaitGroup
		for i, c := range w.sides {
			wg.Go(func() { nodes[i], errs[i] = read(ctx, c, path) })
		}
		wg.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		same := false
		if err := w.shadow.call(ctx, func() {
			if same = w.shadow.engine.Same(path, &nodes[0], &nodes[1]); same || attempt == attempts {
				w.shadow.engine.Walked(path, &nodes[0], &nodes[1])
			}
		}); err != nil {
			return nil, err
		}
		if same || attempt == attempts {
			return common(path, nodes[0].Children, nodes[1].Children), nil
		}
		if pause.For(ctx, delay) != nil {
			return nil, ctx.Err()
		}
	}
}

func common(path string, a, z []string) (paths []string) {
	there := make(map[string]bool, len(z))
	for _, name := range z {
		there[name] = true
	}
	for _, name := range a {
		if there[name] {
			paths = append(paths, jute.Join(path, name))
		}
	}
	return paths
}

// read reads a znode. What the server refuses is a result.
func read(ctx context.Context, c *client.Client, path string) (n shadow.Node, err error) {
	node, err1 := c.Get(ctx, path)
	access, err2 := c.GetACL(ctx, path)
	list, err3 := c.Children(ctx, path)
	for _, err := range []error{err1, err2, err3} {
		switch {
		case err == nil:
		case errors.Is(err, client.ErrNoNode):
			return shadow.Node{Err: jute.ErrNoNode}, nil
		case errors.Is(err, client.ErrNoAuth):
			return shadow.Node{Err: jute.ErrNoAuth}, nil
		default:
			return n, fmt.Errorf("%s: %w", path, err)
		}
	}
	return shadow.Node{Data: node.Data, Stat: node.Stat, ACL: access.ACL, Children: list.Names}, nil
}
