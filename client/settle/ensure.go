package settle

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// ensureRounds is how often Ensure and CreateAll start again because other clients have
// deleted a node that they need.
const ensureRounds = 10

// Ensure makes sure that there is a node, like mkdir -p. It creates the node and all
// missing nodes above it, the root of the view included, with null data, and with o's
// Mode, which is Persistent or Container, and ACL. Nodes that exist stay as they are.
// It takes one round trip if the node exists, and one more if not.
//
// Other clients may create and delete the same nodes meanwhile; ErrNoNode is returned
// if they delete them again and again. Ensure repeats as the policy of c says, also if
// it is unknown whether a node was created.
func Ensure(ctx context.Context, c *client.Client, path string, o client.CreateOptions) error {
	if err := jute.ValidatePath(path); err != nil {
		return &client.Error{Op: opOf(o), Path: path, Err: client.ErrBadArguments, Cause: err}
	}
	root := c.Root()
	full := strings.TrimSuffix(root+path, "/")
	if full == "" {
		return nil
	}
	e := &ensuring{c: c.Unrooted().WithRetry(nil), paths: ancestry(full), o: o}
	for round := 1; ; round++ {
		err := c.Options().Retry.Do(ctx, client.IsTransient, e.round)
		if !errors.Is(err, client.ErrNoNode) || round == ensureRounds {
			return below(root, err)
		}
	}
}

// ancestry returns the paths of the nodes above path and its own, the shortest
// first, without the root's.
func ancestry(path string) []string {
	var all []string
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			all = append(all, path[:i])
		}
	}
	return append(all, path)
}

// ensuring is an ensure under way; its client has no root.
type ensuring struct {
	c     *client.Client
	paths []string
	o     client.CreateOptions
}

// round looks which nodes are missing, and creates them in one go. It fails with
// ErrNoNode if one of them was deleted meanwhile.
func (e *ensuring) round(ctx context.Context) error {
	missing, err := e.missing(ctx)
	if err != nil {
		return err
	}
	made := make([]*client.Future[client.Created], len(missing))
	for i, path := range missing {
		made[i] = e.c.Async().Create(path, nil, e.o)
	}
	var failed error
	for _, f := range made {
		_, err := f.Wait(ctx)
		if err == nil || errors.Is(err, client.ErrNodeExists) {
			continue
		}
		if failed == nil || errors.Is(failed, client.ErrNoNode) {
			failed = err // what comes after it has no parent
		}
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

// missing returns the paths below the deepest node that exists. It asks for all of them
// from the deepest upwards, but waits for no more answers than it needs.
func (e *ensuring) missing(ctx context.Context) ([]string, error) {
	there := make([]*client.Future[client.Presence], len(e.paths))
	for i := len(e.paths) - 1; i >= 0; i-- {
		there[i] = e.c.Async().Exists(e.paths[i])
	}
	for i := len(e.paths) - 1; i >= 0; i-- {
		p, err := there[i].Wait(ctx)
		if err != nil && !errors.Is(err, client.ErrNoAuth) { // then the node exists
			return nil, err
		}
		if p.Exists || err != nil {
			return e.paths[i+1:], nil
		}
	}
	return e.paths, nil
}

// below returns err with the path as a view with that root names it.
func below(root string, err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || root == "" {
		return err
	}
	view := *e
	if rest, ok := strings.CutPrefix(e.Path, root); ok && (rest == "" || rest[0] == '/') {
		view.Path = rest
		if rest == "" {
			view.Path = "/"
		}
	}
	return &view
}

// CreateAll is client.Client.Create that also creates missing nodes above the node,
// with the same ACL: see Ensure. It tries without that first, so it costs nothing where
// the parent exists. The create of the node itself is a plain one, with its errors.
func CreateAll(ctx context.Context, c *client.Client, path string, data []byte, o client.CreateOptions) (client.Created, error) {
	for round := 1; ; round++ {
		made, err := c.Create(ctx, path, data, o)
		if !errors.Is(err, client.ErrNoNode) || round == ensureRounds {
			return made, err
		}
		parent := path[:max(strings.LastIndexByte(path, '/'), 1)]
		if err := Ensure(ctx, c, parent, client.CreateOptions{ACL: o.ACL}); err != nil {
			return client.Created{}, fmt.Errorf("create %s: its parent: %w", path, err)
		}
	}
}

// CreateInContainer is Create that also creates missing nodes above the node, as
// containers with the same ACL: see Ensure. It tries without that first.
func CreateInContainer(ctx context.Context, c *client.Client, path string, data []byte, o CreateOptions) (client.Created, error) {
	for round := 1; ; round++ {
		made, err := Create(ctx, c, path, data, o)
		if !errors.Is(err, client.ErrNoNode) || round == ensureRounds { // a container may be deleted before it is used
			return made, err
		}
		parent := path[:max(strings.LastIndexByte(path, '/'), 1)]
		if err := Ensure(ctx, c, parent, client.CreateOptions{Mode: client.Container, ACL: o.ACL}); err != nil {
			return client.Created{}, err
		}
	}
}
