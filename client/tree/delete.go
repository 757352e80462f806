package tree

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// DeleteOptions say how Delete deletes.
type DeleteOptions struct {
	// KeepRoot deletes what is below the node, but not the node itself.
	KeepRoot bool
	// DryRun counts what would be deleted, and deletes nothing.
	DryRun bool
	// Batch is how many nodes a multi deletes at most; 0 means 500. A multi is done as a
	// whole, and the requests of other clients wait for it. There are fewer nodes in it
	// if their paths are long.
	Batch int
	plain bool // as on a server without pages
	// Progress is called from time to time with the number of nodes that are gone, and
	// of those that have been found so far, in the goroutine that called Delete.
	Progress func(done, found int)
}

// DeleteError is why Delete has not deleted everything.
type DeleteError struct {
	Path string // that was to be deleted
	// Deleted nodes are gone. Left are those that were found and still exist. Unknown are
	// those whose deletion was under way when the context or the connection ended.
	Deleted, Left, Unknown int
	Err                    error // the first one
}

// Error says how much is done.
func (e *DeleteError) Error() string {
	s := fmt.Sprintf("delete all of %s: %d nodes are deleted, %d are left", e.Path, e.Deleted, e.Left)
	if e.Unknown > 0 {
		s += fmt.Sprintf(", of %d it is unknown", e.Unknown)
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the first error.
func (e *DeleteError) Unwrap() error { return e.Err }

// The bounds of Delete.
const (
	deleteBatch      = 500             // deletes in a multi, unless DeleteOptions say
	deleteAhead      = 100_000         // nodes that are found before the first one is deleted
	deleteBatchBytes = 64 << 10        // of paths in a multi
	deleteWindow     = 8               // multis under way
	deleteRounds     = 10              // restarts because other clients created nodes
	flatSize         = 1000            // children, from which on it asks first whether they have any
	deleteGrace      = 2 * time.Second // to wait for replies after the context has ended
)

// Delete deletes a node and all nodes below it, children first, and returns how many
// nodes are gone. The deletes are batched in multis, which are pipelined. They begin when all
// nodes are found, or 100,000 of them, so that any number can be deleted in little memory. If other
// clients create nodes there meanwhile, Delete starts again for these, up to ten times.
// It is not atomic.
//
// ErrNoNode is returned if there is no such node. "/zookeeper" and the nodes below it
// are never deleted, nor is "/": Delete of "/" deletes everything else. If a node cannot
// be deleted, as with ErrNoAuth, the others are deleted nevertheless. Then, and when ctx
// ends, the error is a *DeleteError that says what was done; for that Delete waits up to
// 2 s for the replies that are on their way when ctx ends. Multis whose connection broke
// are repeated as the policy of c says.
func Delete(ctx context.Context, c *client.Client, path string, o DeleteOptions) (deleted int, err error) {
	full := strings.TrimSuffix(c.Root()+path, "/")
	if err = jute.ValidatePath(path); err == nil && ofServers(full) {
		err = errors.New("the nodes of the servers themselves are not for deletion")
	}
	if err == nil && o.Batch < 0 {
		err = fmt.Errorf("DeleteOptions.Batch is %d: it should be positive, or 0 for %d", o.Batch, deleteBatch)
	}
	if err != nil {
		return 0, &client.Error{Op: jute.OpDelete, Path: path, Err: client.ErrBadArguments, Cause: err}
	}
	if o.Batch == 0 {
		o.Batch = deleteBatch
	}
	all := c.Options()
	r := &removal{
		c: c.WithRetry(nil), policy: all.Retry, path: path, o: o,
		most: min(deleteBatchBytes, all.MaxRequest/2), timeout: c.Status().Timeout,
	}
	r.o.KeepRoot = o.KeepRoot || full == ""
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

// removal is a Delete under way.
type removal struct {
	c       *client.Client
	policy  *client.RetryPolicy
	path    string
	o       DeleteOptions
	most    int           // bytes of paths in a multi
	timeout time.Duration // of the session
	deleted int           // all rounds
	found   int           // in this round, and gone in those before
	left    int           // known to be there still, in this round
	unknown int           // with an unknown outcome, in this round
	err     error         // the first one of this round; ErrNotEmpty if there is no other
	stopped bool          // no more is to be sent
	grace   time.Time     // when to stop waiting for replies; zero until ctx ends
}

// batch is some deletes under way.
type batch struct {
	paths  []string
	result *client.Future[[]client.OpResult]
}

// round finds everything and deletes it. again says that there is more by now.
func (r *removal) round(ctx context.Context, round int) (again bool, err error) {
	r.found, r.left, r.unknown, r.err = r.deleted, 0, 0, nil
	paths := make([]string, 0, 1024)
	broken := r.list(ctx, func(path string) bool {
		if r.found++; r.found%1000 == 0 {
			r.report()
		}
		if r.o.DryRun {
			return true
		}
		if paths = append(paths, path); len(paths) == deleteAhead {
			r.deleteAll(ctx, paths)
			paths = paths[:0]
		}
		return !r.stopped
	})
	switch {
	case round > 1 && errors.Is(broken, client.ErrNoNode):
		return false, nil
	case round == 1 && errors.Is(broken, client.ErrNoNode):
		return false, broken
	case broken != nil:
		r.left += len(paths)
		return false, r.failed(broken)
	case r.o.DryRun:
		r.deleted = r.found
		r.report()
		return false, nil
	}
	r.deleteAll(ctx, paths)
	switch {
	case r.left == 0 && r.unknown == 0:
		return false, nil
	case errors.Is(r.err, client.ErrNotEmpty) && round < deleteRounds:
		return true, nil
	}
	return false, r.failed(r.err)
}

func (r *removal) failed(err error) error {
	return &DeleteError{Path: r.path, Deleted: r.deleted, Left: r.left, Unknown: r.unknown, Err: err}
}

// fail records an error. ErrNotEmpty gives way to any other, because it is what other
// errors lead to.
func (r *removal) fail(err error) {
	if r.err == nil || errors.Is(r.err, client.ErrNotEmpty) {
		r.err = err
	}
}

func (r *removal) report() {
	if r.o.Progress != nil {
		r.o.Progress(r.deleted, r.found)
	}
}

// list finds the nodes to delete, children before their parents, until found returns false. It
// returns an error that ends the listing.
func (r *removal) list(ctx context.Context, found func(path string) bool) error {
	paths, ok := r.listFlat(ctx)
	for _, path := range paths {
		if !found(path) {
			break
		}
	}
	if ok {
		return nil
	}
	var above []Entry // the last node visited and those above it
	end := func(depth int) bool {
		for len(above) > 0 && above[len(above)-1].Depth >= depth {
			path := above[len(above)-1].Path
			above = above[:len(above)-1]
			if !found(path) {
				return false
			}
		}
		return true
	}
	for e, err := range Walk(ctx, r.c.WithRetry(r.policy), r.path, WalkOptions{Window: deleteBatch, plain: r.o.plain}) {
		if err != nil && (e.Path == "" || e.Depth == 0 && r.o.KeepRoot) {
			return err
		}
		if err != nil {
			r.fail(err) // unless it has no children: then it can be deleted
		}
		if !end(e.Depth) {
			return nil
		}
		if e.Depth == 0 && r.o.KeepRoot || ofServers(r.c.Root()+e.Path) {
			continue
		}
		above = append(above, e)
	}
	end(0)
	return nil
}

// listFlat is list for a directory with very many nodes that have no children, such as a
// queue, on a server without pages. It takes two requests instead of one for each node. If the
// directory is of another kind, or an error comes, list finds out what there is.
func (r *removal) listFlat(ctx context.Context) (paths []string, ok bool) {
	if !r.o.plain && offersPages(ctx, r.c) {
		return nil, false
	}
	list, err := r.c.Children(ctx, r.path)
	if err != nil || len(list.Names) < flatSize {
		return nil, false
	}
	n, err := r.c.CountDescendants(ctx, r.path)
	if err != nil || n != len(list.Names) {
		return nil, false
	}
	for _, name := range list.Names {
		paths = append(paths, jute.Join(r.path, name))
	}
	if !r.o.KeepRoot {
		paths = append(paths, r.path)
	}
	return paths, true
}

// ofServers reports whether a node, by the name that the servers know, is theirs.
func ofServers(full string) bool {
	return full == "/zookeeper" || strings.HasPrefix(full, "/zookeeper/")
}

// deleteAll deletes the nodes.
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

// issue sends one multi that deletes the first of the paths, and returns the rest.
func (r *removal) issue(paths []string) (b batch, rest []string) {
	var ops []client.Op
	const overhead = 17 // of a delete in a multi: header, length, version
	root := len(r.c.Root())
	for bytes := 0; len(paths) > 0 && len(ops) < r.o.Batch; {
		path := paths[0]
		if bytes += root + len(path) + overhead; bytes > r.most && len(ops) > 0 {
			break
		}
		ops = append(ops, client.DeleteOp(path, client.AnyVersion))
		b.paths = append(b.paths, path)
		paths = paths[1:]
	}
	b.result = r.c.Async().Multi(ops)
	return b, paths
}

// settle waits for a multi and sees to what it has not done.
func (r *removal) settle(ctx context.Context, b batch) {
	err := outcome(ctx, r, b.result)
	doubt := client.IsAmbiguous(err)
	over := r.stopped || ctx.Err() != nil
	switch {
	case err == nil:
		r.deleted += len(b.paths)
		r.policy.Succeeded()
		return
	case !doubt && isReply(err) && !over:
		r.oneByOne(ctx, b.paths, false, 1)
		return
	case client.IsTransient(err) && !over:
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
	return errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrNotEmpty) || errors.Is(err, client.ErrNoAuth) || errors.Is(err, client.ErrBadArguments)
}

// oneByOne deletes nodes of a multi that was not done or, with doubt, perhaps was.
// attempt is the policy's number of the first one.
func (r *removal) oneByOne(ctx context.Context, paths []string, doubt bool, attempt int) {
	for ; len(paths) > 0; attempt++ {
		results := make([]*client.Future[client.None], len(paths))
		for i, path := range paths {
			results[i] = r.c.Async().Delete(path, client.AnyVersion)
		}
		var again []string
		var broken error
		for i, f := range results {
			err := outcome(ctx, r, f)
			switch {
			case err == nil || errors.Is(err, client.ErrNoNode):
				r.deleted++
			case client.IsTransient(err):
				again, broken = append(again, paths[i]), err
				doubt = doubt || client.IsAmbiguous(err)
			default:
				r.giveUp(err, 1, doubt || client.IsAmbiguous(err))
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

// outcome waits for the result of a change. When ctx has ended, it takes back a request
// that has not been sent, and waits for a reply that is on its way.
func outcome[T any](ctx context.Context, r *removal, f *client.Future[T]) error {
	_, err := f.Wait(ctx)
	if ctx.Err() == nil {
		return err
	}
	if _, there, err := f.Result(); there {
		return err // not Wait's, which may not have known of it yet
	}
	if err := f.Cancel(context.Cause(ctx)); !client.IsAmbiguous(err) {
		return err // it was waiting for a connection
	}
	if r.grace.IsZero() {
		r.grace = time.Now().Add(min(deleteGrace, r.timeout))
	}
	wait, cancel := context.WithDeadline(context.WithoutCancel(ctx), r.grace)
	defer cancel()
	_, _ = f.Wait(wait) // Result tells
	if _, there, err := f.Result(); there {
		return err
	}
	return f.Cancel(context.Cause(ctx))
}
