package subtree

import (
	"context"
	"errors"
	"slices"

	"github.com/zkd-project/zkd/client"
)

// DeleteOptions are for Delete.
type DeleteOptions struct {
	// DryRun only counts.
	DryRun bool
	// Batch is how many nodes a multi deletes at most; 0 is 500.
	Batch int
	// Confirm is asked, if it is not nil, once it is known how many nodes there
	// are. If it returns an error nothing is deleted, and that is the error.
	Confirm func(nodes int) error
	// Progress is called after each batch. It may be nil.
	Progress func(Progress)
}

// Delete deletes a node and all below it, the lowest first, in batches of which
// each is done whole or not at all. Nodes that are created meanwhile are deleted,
// too, unless they keep coming. Whatever the error, the report says what was done.
// If ctx ends, Delete waits for the batch that is under way, no longer than the
// session's timeout. ErrNoNode if there is no such node; of "/" all is deleted but
// "/" itself and /zookeeper.
func Delete(ctx context.Context, c *client.Client, path string, o DeleteOptions) (Report, error) {
	var total Report
	for round := 1; ; round++ {
		paths, err := listPaths(ctx, c, path, o.Progress)
		if round > 1 && errors.Is(err, client.ErrNoNode) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		if round == 1 {
			total.Total, total.Left = len(paths), len(paths)
			total.Plan.Deleted = len(paths)
			if o.Confirm != nil {
				err = o.Confirm(len(paths))
			}
			if err != nil || o.DryRun {
				return total, err
			}
		}
		done, err := deletePaths(ctx, c, paths, o)
		total.add(done)
		if round == maxRounds || !errors.Is(err, client.ErrNotEmpty) {
			return total, err
		}
	}
}

// add adds what one more round of a change has done.
func (r *Report) add(more Report) {
	r.Created += more.Created
	r.Changed += more.Changed
	r.Deleted += more.Deleted
	r.Total = max(r.Total, r.Deleted+more.Left)
	r.Left, r.Next, r.Unknown = more.Left, more.Next, more.Unknown
}

// listPaths returns the paths of a subtree in tree order, but for what can't be
// deleted.
func listPaths(ctx context.Context, c *client.Client, root string, progress func(Progress)) ([]string, error) {
	var paths []string
	for n, err := range Live(ctx, c, root, ReadOptions{SkipSystem: true}) {
		if err != nil {
			return nil, err
		}
		if path := Join(root, n.Path); path != "/" {
			paths = append(paths, path)
		}
		if progress != nil && len(paths)%1000 == 0 {
			progress(Progress{Doing: "listing", Done: len(paths)})
		}
	}
	return paths, nil
}

// deletePaths deletes nodes, given in tree order, from the last to the first.
// Those that are gone already count as deleted.
func deletePaths(ctx context.Context, c *client.Client, paths []string, o DeleteOptions) (Report, error) {
	if o.Batch <= 0 {
		o.Batch = 500
	}
	r := Report{Total: len(paths), Left: len(paths)}
	slices.Reverse(paths)
	size := func(path *string) int { return 24 + len(*path) }
	for batch := range batches(stream(paths), o.Batch, client.DefaultMaxRequest/2, size) {
		err := context.Cause(ctx)
		unknown := false
		if err == nil {
			unknown, err = deleteBatch(ctx, c, batch)
		}
		if err != nil {
			r.Next = batch[0]
			if unknown {
				r.Unknown = batch
			}
			return r, err
		}
		r.Deleted += len(batch)
		r.Left -= len(batch)
		if o.Progress != nil {
			o.Progress(Progress{"deleting", r.Deleted, r.Total})
		}
	}
	return r, nil
}

// deleteBatch deletes some nodes, all or none. unknown tells that it could not be
// found out which.
func deleteBatch(ctx context.Context, c *client.Client, batch []string) (unknown bool, err error) {
	work, stop := grace(ctx, c)
	defer stop()
	rest := batch
	for round := 1; len(rest) > 0; round++ {
		ops := make([]client.Op, len(rest))
		for i, path := range rest {
			ops[i] = client.DeleteOp(path, client.AnyVersion)
		}
		_, err = c.Multi(work, ops...)
		gone := errors.Is(err, client.ErrNoNode) && round < maxRounds
		if err == nil || !gone && !errors.Is(err, client.ErrConnectionLoss) {
			return unknown || client.IsAmbiguous(err), err
		}
		unknown = unknown || client.IsAmbiguous(err)
		found, lookErr := existing(work, c, rest)
		if lookErr != nil {
			return unknown, lookErr
		}
		rest, unknown = found, false
	}
	return false, nil
}

// existing returns those of the paths that exist.
func existing(ctx context.Context, c *client.Client, paths []string) ([]string, error) {
	for {
		found, err := existingOnce(ctx, c, paths)
		if !errors.Is(err, client.ErrConnectionLoss) || ctx.Err() != nil {
			return found, err
		}
	}
}

func existingOnce(ctx context.Context, c *client.Client, paths []string) ([]string, error) {
	async := c.Async()
	asked := make([]*client.Future[client.Presence], len(paths))
	for i, path := range paths {
		asked[i] = async.Exists(path)
	}
	var found []string
	for i, f := range asked {
		p, err := f.Wait(ctx)
		if err != nil {
			return nil, err
		}
		if p.Exists {
			found = append(found, paths[i])
		}
	}
	return found, nil
}
