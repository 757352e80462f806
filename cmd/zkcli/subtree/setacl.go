package subtree

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/treediff"
)

// SetACLOptions are for SetACL.
type SetACLOptions struct {
	// DryRun only counts.
	DryRun bool
	// Progress is called from time to time. It may be nil.
	Progress func(Progress)
}

// SetACL sets the ACL of a node and all nodes below it, in tree order. Nodes that have it
// already are left alone, and nodes deleted meanwhile do not count. Whatever the error, the
// report says what was done. If ctx ends, SetACL waits for the changes under way, no longer
// than the session's timeout.
func SetACL(ctx context.Context, c *client.Client, path string, acl []client.ACL, o SetACLOptions) (Report, error) {
	var r Report
	todo, err := differing(ctx, c, path, acl, &r)
	if err != nil {
		return Report{}, err // nothing is changed, and the total is not known
	}
	if o.DryRun {
		return r, nil
	}
	const window = 100
	for len(todo) > 0 {
		batch := todo[:min(window, len(todo))]
		if err := setBatch(ctx, c, batch, acl, &r); err != nil {
			return r, err
		}
		todo = todo[len(batch):]
		if o.Progress != nil {
			o.Progress(Progress{Doing: "setting ACLs", Done: r.Changed + r.Same, Total: r.Total})
		}
	}
	return r, nil
}

// differing lists the nodes that have another ACL.
func differing(ctx context.Context, c *client.Client, root string, acl []client.ACL, r *Report) ([]string, error) {
	var paths []string
	for n, err := range Live(ctx, c, root, ReadOptions{ACL: true, SkipSystem: true}) {
		if err != nil {
			return nil, err
		}
		r.Total++
		if treediff.SameACL(n.ACL, acl) {
			r.Same++
			continue
		}
		paths = append(paths, treediff.Join(root, n.Path))
	}
	r.Left = len(paths)
	r.Plan = Counts{Changed: len(paths), Same: r.Same}
	return paths, nil
}

// setBatch sets the ACL of some nodes at once. Repeating it does no harm, so it is repeated
// after a lost connection.
func setBatch(ctx context.Context, c *client.Client, batch []string, acl []client.ACL, r *Report) error {
	if err := context.Cause(ctx); err != nil {
		r.Next = batch[0]
		return err
	}
	work, stop := grace(ctx, c)
	defer stop()
	async := c.Async()
	sets := make([]*client.Future[client.Stat], len(batch))
	for i, path := range batch {
		sets[i] = async.SetACL(path, acl, client.AnyVersion)
	}
	var first error
	for i, f := range sets {
		_, err := f.Wait(work)
		for errors.Is(err, client.ErrConnectionLoss) && work.Err() == nil {
			_, err = c.SetACL(work, batch[i], acl, client.AnyVersion)
		}
		switch {
		case err == nil:
			r.Changed++
			r.Left--
		case errors.Is(err, client.ErrNoNode):
			r.Total--
			r.Left--
		case first == nil:
			first, r.Next = err, batch[i]
		}
		if client.IsAmbiguous(err) {
			r.Unknown = append(r.Unknown, batch[i])
		}
	}
	return first
}
