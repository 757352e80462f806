package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ensureRounds is how often EnsurePath and CreateAll begin again because somebody
// has deleted a node that they need.
const ensureRounds = 10

// EnsurePath makes sure that there is a node, like mkdir -p: it creates it and all
// that is missing above, the root of the view included, with null data and the acl
// (nil is OpenACL). Nodes that exist stay as they are. It takes one round trip if
// the node exists, and one more if not. Others may create and delete the same nodes
// meanwhile; ErrNoNode is returned if they delete them again and again. It repeats
// as the view's RetryPolicy says, or DefaultRetry, also if it is ambiguous whether
// a node was created.
func (c *Client) EnsurePath(ctx context.Context, path string, acl []ACL) error {
	return c.ensure(ctx, path, Persistent, acl)
}

// EnsureContainer is EnsurePath with missing nodes made as containers: the servers
// delete them some time after their last child has gone.
func (c *Client) EnsureContainer(ctx context.Context, path string, acl []ACL) error {
	return c.ensure(ctx, path, Container, acl)
}

func (c *Client) ensure(ctx context.Context, path string, mode CreateMode, acl []ACL) error {
	full, err := c.full(path, false)
	if err != nil {
		return &Error{Op: (&CreateOptions{Mode: mode}).code(), Path: path, Err: ErrBadArguments, Cause: err}
	}
	if full == "/" {
		return nil
	}
	e := &ensuring{c: c.once(), paths: ancestry(full), mode: mode, acl: acl}
	top := *e.c
	top.root = "" // what is above the view's root is to be created, too
	e.c = &top
	policy := c.policy()
	for round := 1; ; round++ {
		err := policy.Do(ctx, IsTransient, e.round)
		if !errors.Is(err, ErrNoNode) || round == ensureRounds {
			return c.named(err)
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
	c     *Client
	paths []string
	mode  CreateMode
	acl   []ACL
}

// round looks which nodes are missing and creates them, each all at once. It fails
// with ErrNoNode if one of them went meanwhile.
func (e *ensuring) round(ctx context.Context) error {
	missing, err := e.missing(ctx)
	if err != nil {
		return err
	}
	made := make([]*Future[Created], len(missing))
	for i, path := range missing {
		made[i] = e.c.Async().Create(path, nil, CreateOptions{Mode: e.mode, ACL: e.acl})
	}
	var failed error
	for _, f := range made {
		_, err := f.Wait(ctx)
		if err == nil || errors.Is(err, ErrNodeExists) {
			continue
		}
		if failed == nil || errors.Is(failed, ErrNoNode) {
			failed = err // what comes after it has no parent
		}
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

// missing returns the paths below the deepest node that exists. It asks for all
// from the deepest on upwards, but waits for no more answers than it needs.
func (e *ensuring) missing(ctx context.Context) ([]string, error) {
	there := make([]*Future[Presence], len(e.paths))
	for i := len(e.paths) - 1; i >= 0; i-- {
		there[i] = e.c.Async().Exists(e.paths[i])
	}
	for i := len(e.paths) - 1; i >= 0; i-- {
		p, err := there[i].Wait(ctx)
		if err != nil && !errors.Is(err, ErrNoAuth) { // which only a node that exists is protected by
			return nil, err
		}
		if p.Exists || err != nil {
			return e.paths[i+1:], nil
		}
	}
	return e.paths, nil
}

// named returns err with the path as this view names it.
func (c *Client) named(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && c.root != "" {
		view := *e
		view.Path = c.strip(e.Path)
		return &view
	}
	return err
}

// CreateAll is Create that also creates what is missing above the node, with the
// same acl: see EnsurePath. It tries without that first, so it costs nothing where
// the parent exists. Of the node itself it is a plain Create, with its errors.
func (c *Client) CreateAll(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, error) {
	for round := 1; ; round++ {
		made, err := c.Create(ctx, path, data, CreateOptions{Mode: mode, ACL: acl})
		if !errors.Is(err, ErrNoNode) || round == ensureRounds {
			return made.Path, err
		}
		parent := path[:max(strings.LastIndexByte(path, '/'), 1)]
		if err := c.EnsurePath(ctx, parent, acl); err != nil {
			return "", fmt.Errorf("create %s: its parent: %w", path, err)
		}
	}
}
