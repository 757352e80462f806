package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// DeleteOptions say how DeleteAll is to go about it.
type DeleteOptions struct {
	// KeepRoot deletes what is below the node, but not the node itself.
	KeepRoot bool
	// DryRun counts what would be deleted, and deletes nothing.
	DryRun bool
	// Batch is how many nodes a multi deletes at most; 0 is 500. A multi is done
	// whole or not at all, and the others' requests wait for it. If the paths are
	// long there are fewer in it.
	Batch int
	// Progress is told from time to time how many nodes are gone, of how many that
	// have been found so far. It is called by the goroutine that called DeleteAll.
	Progress func(done, found int)
}

// DeleteAllError is why DeleteAll has not deleted everything.
type DeleteAllError struct {
	Path string // that was to be deleted
	// Deleted nodes are gone. Left are those that were found and are known to be
	// there still. Unknown are those whose deletion was under way when the context
	// or the connection ended.
	Deleted, Left, Unknown int
	Err                    error // the first one
}

// Error says how much is done.
func (e *DeleteAllError) Error() string {
	s := fmt.Sprintf("delete all of %s: %d nodes are deleted, %d are left", e.Path, e.Deleted, e.Left)
	if e.Unknown > 0 {
		s += fmt.Sprintf(", of %d it is unknown", e.Unknown)
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the first error.
func (e *DeleteAllError) Unwrap() error { return e.Err }

// The bounds of DeleteAll: how many deletes, and bytes of paths, go into a multi,
// which other clients have to wait for; how many multis are under way; how often it
// begins again because others created nodes; of how many children on it asks whether
// they have any, before it looks at each; how long it waits, once its context has
// ended, for what is under way.
const (
	deleteBatch      = 500 // unless DeleteOptions say
	deleteBatchBytes = 64 << 10
	deleteWindow     = 8
	deleteRounds     = 10
	flatSize         = 1000
	deleteGrace      = 2 * time.Second
)

// DeleteAll deletes a node and all below it, children first, and returns how many
// nodes are gone. Deletes go in multis, and those are pipelined. Others may create
// and delete nodes there meanwhile: it begins again for what they have created, up
// to ten times. It is not atomic.
//
// ErrNoNode is returned if there is no such node. "/zookeeper" and what is below is
// never deleted, nor is "/": DeleteAll(ctx, "/") empties the tree but for it. If
// nodes can't be deleted, as with ErrNoAuth, the others are all the same. Then, and
// when ctx ends, the error is a *DeleteAllError that says how much is done; for that
// it waits for the replies that are under way when ctx ends, no longer than 2 s.
// Multis whose connection broke are repeated as the view's
// RetryPolicy says, or DefaultRetry.
func (c *Client) DeleteAll(ctx context.Context, path string, o DeleteOptions) (deleted int, err error) {
	full, err := c.full(path, false)
	if err == nil && ofServers(full) {
		err = errors.New("the nodes of the servers themselves are not for deletion")
	}
	if err == nil && o.Batch < 0 {
		err = fmt.Errorf("DeleteOptions.Batch is %d: it should be positive, or 0 for %d", o.Batch, deleteBatch)
	}
	if err != nil {
		return 0, &Error{Op: jute.OpDelete, Path: path, Err: ErrBadArguments, Cause: err}
	}
	if o.Batch == 0 {
		o.Batch = deleteBatch
	}
	r := &removal{c: c.once(), policy: c.policy(), path: path, o: o}
	r.o.KeepRoot = o.KeepRoot || full == "/"
	for round := 1; ; round++ {
		again, err := r.round(ctx, round)
		if err != nil {
			return r.deleted, err
		}
		if !again {
			return r.deleted, nil
		}
	}
}

// removal is a DeleteAll under way.
type removal struct {
	c       *Client
	policy  *RetryPolicy
	path    string
	o       DeleteOptions
	deleted int       // all rounds
	found   int       // in this round, and gone in those before
	left    int       // known to be there still; of this round
	unknown int       // likewise
	err     error     // the first one of this round; ErrNotEmpty if there is no other
	stopped bool      // no more is to be sent
	grace   time.Time // when to stop waiting for replies; zero until ctx ends
}

// batch is some deletes under way.
type batch struct {
	paths  []string
	result *Future[[]OpResult]
}

// round finds everything and deletes it. again says that there is more by now.
func (r *removal) round(ctx context.Context, round int) (again bool, err error) {
	r.left, r.unknown, r.err = 0, 0, nil
	paths, err := r.list(ctx)
	if round > 1 && errors.Is(err, ErrNoNode) {
		return false, nil
	}
	r.found = r.deleted + len(paths)
	switch {
	case r.o.DryRun && err == nil:
		r.deleted = len(paths)
		r.report()
		return false, nil
	case err != nil:
		if round == 1 && errors.Is(err, ErrNoNode) {
			return false, err
		}
		r.left = len(paths)
		return false, r.failed(err)
	case len(paths) == 0:
		return false, nil
	}
	r.deleteAll(ctx, paths)
	switch {
	case r.left == 0 && r.unknown == 0:
		return false, nil
	case errors.Is(r.err, ErrNotEmpty) && round < deleteRounds:
		return true, nil
	}
	return false, r.failed(r.err)
}

func (r *removal) failed(err error) error {
	return &DeleteAllError{Path: r.path, Deleted: r.deleted, Left: r.left, Unknown: r.unknown, Err: err}
}

// fail notes an error. That a node had children is of less interest than any other:
// it is what other errors lead to.
func (r *removal) fail(err error) {
	if r.err == nil || errors.Is(r.err, ErrNotEmpty) {
		r.err = err
	}
}

func (r *removal) report() {
	if r.o.Progress != nil {
		r.o.Progress(r.deleted, r.found)
	}
}

// list returns the paths to delete, parents before their children.
func (r *removal) list(ctx context.Context) ([]string, error) {
	if paths, ok := r.listFlat(ctx); ok {
		return paths, nil
	}
	var paths []string
	for e, err := range r.c.WithRetry(r.policy).Walk(ctx, r.path, WalkOptions{}) {
		if err != nil && (e.Path == "" || e.Depth == 0 && r.o.KeepRoot) {
			return paths, err
		}
		if err != nil {
			r.fail(err) // unless it has no children: then it can be deleted
		}
		if e.Depth == 0 && r.o.KeepRoot || ofServers(r.c.root+e.Path) {
			continue
		}
		if paths = append(paths, e.Path); len(paths)%1000 == 0 {
			r.found = r.deleted + len(paths)
			r.report()
		}
	}
	return paths, nil
}

// listFlat is list for what is usual of a directory with very many nodes, such as a
// queue: that none of them has children. It takes two requests instead of one for
// each. If it isn't so, or an error comes, list finds out what there is.
func (r *removal) listFlat(ctx context.Context) (paths []string, ok bool) {
	list, err := r.c.Children(ctx, r.path)
	if err != nil || len(list.Names) < flatSize {
		return nil, false
	}
	n, err := r.c.CountDescendants(ctx, r.path)
	if err != nil || n != len(list.Names) {
		return nil, false
	}
	if !r.o.KeepRoot {
		paths = append(paths, r.path)
	}
	for _, name := range list.Names {
		paths = append(paths, join(r.path, name))
	}
	return paths, true
}

// ofServers reports whether a node, by the name that the servers know, is theirs.
func ofServers(full string) bool {
	return full == "/zookeeper" || strings.HasPrefix(full, "/zookeeper/")
}

// deleteAll deletes the nodes, the last of them first.
func (r *removal) deleteAll(ctx context.Context, paths []string) {
	var flight []batch // multis under way, the oldest first
	for {
		for len(flight) < deleteWindow && len(paths) > 0 && !r.stopped && ctx.Err() == nil {
			var b batch
			b, paths = r.issue(paths)
			flight = append(flight, b)
		}
		if len(flight) == 0 {
			break
		}
		r.settle(ctx, flight[0])
		flight = flight[1:]
		r.report()
	}
	if r.left += len(paths); len(paths) > 0 && ctx.Err() != nil {
		r.fail(context.Cause(ctx))
	}
}

// issue sends one multi that deletes the last of the paths, and returns the rest.
func (r *removal) issue(paths []string) (b batch, rest []string) {
	var ops []Op
	const overhead = 17 // of a delete in a multi: header, length, version
	most := min(deleteBatchBytes, r.c.s.opts.MaxRequest/2)
	for bytes := 0; len(paths) > 0 && len(ops) < r.o.Batch; {
		path := paths[len(paths)-1]
		if bytes += len(r.c.root) + len(path) + overhead; bytes > most && len(ops) > 0 {
			break
		}
		ops = append(ops, DeleteOp(path, AnyVersion))
		b.paths = append(b.paths, path)
		paths = paths[:len(paths)-1]
	}
	b.result = r.c.Async().Multi(ops)
	return b, paths
}

// settle waits for a multi and sees to what it has not done.
func (r *removal) settle(ctx context.Context, b batch) {
	err := outcome(ctx, r, b.result)
	doubt := IsAmbiguous(err)
	over := r.stopped || ctx.Err() != nil
	switch {
	case err == nil:
		r.deleted += len(b.paths)
		r.policy.Succeeded()
		return
	case !doubt && isReply(err) && !over:
		r.oneByOne(ctx, b.paths, false, 1)
		return
	case IsTransient(err) && !over:
		if err = r.policy.Again(ctx, 1, err); err == nil {
			r.oneByOne(ctx, b.paths, doubt, 2)
			return
		}
	}
	r.giveUp(err, len(b.paths), doubt)
}

// giveUp counts nodes whose deletion has failed with err for good. With doubt, an
// attempt before may have succeeded.
func (r *removal) giveUp(err error, nodes int, doubt bool) {
	r.fail(err)
	if isReply(err) {
		r.left += nodes
		return
	}
	r.stopped = true
	if doubt {
		r.unknown += nodes
	} else {
		r.left += nodes
	}
}

// isReply reports whether err is a server's answer to a delete.
func isReply(err error) bool {
	return errors.Is(err, ErrNoNode) || errors.Is(err, ErrNotEmpty) || errors.Is(err, ErrNoAuth) || errors.Is(err, ErrBadArguments)
}

// oneByOne deletes nodes of a multi that was not done or, with doubt, perhaps was.
// attempt is the policy's number of the first one.
func (r *removal) oneByOne(ctx context.Context, paths []string, doubt bool, attempt int) {
	for ; len(paths) > 0; attempt++ {
		results := make([]*Future[None], len(paths))
		for i, path := range paths {
			results[i] = r.c.Async().Delete(path, AnyVersion)
		}
		var again []string
		var broken error
		for i, f := range results {
			err := outcome(ctx, r, f)
			switch {
			case err == nil || errors.Is(err, ErrNoNode):
				r.deleted++
			case IsTransient(err):
				again, broken = append(again, paths[i]), err
				doubt = doubt || IsAmbiguous(err)
			default:
				r.giveUp(err, 1, doubt || IsAmbiguous(err))
			}
		}
		if broken != nil {
			if err := r.policy.Again(ctx, attempt, broken); err != nil {
				r.giveUp(err, len(again), doubt)
				return
			}
		}
		paths = again
	}
}

// outcome waits for the result of a change. Once ctx has ended it takes
// back what has not been sent, and waits for replies that are on their way.
func outcome[T any](ctx context.Context, r *removal, f *Future[T]) error {
	_, err := f.Wait(ctx)
	if ctx.Err() == nil {
		return err
	}
	if _, there, err := f.Result(); there {
		return err // not Wait's, which may not have known of it yet
	}
	if err := f.c.s.leave(&f.call, context.Cause(ctx), true); !IsAmbiguous(err) {
		return err // it was waiting for a connection
	}
	if r.grace.IsZero() {
		r.grace = time.Now().Add(min(deleteGrace, f.c.Timeout()))
	}
	wait, cancel := context.WithDeadline(context.WithoutCancel(ctx), r.grace)
	defer cancel()
	_, _ = f.Wait(wait) // Result tells
	if _, there, err := f.Result(); there {
		return err
	}
	return f.c.s.leave(&f.call, context.Cause(ctx), false)
}
