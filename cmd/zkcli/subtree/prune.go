package subtree

import (
	"context"
	"errors"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/treediff"
)

// prune deletes the nodes that are not in the file, the lowest first, in batches that are
// done completely or not at all. Nodes that are gone already count as deleted. It does not
// use tree.Delete because of nodes that other clients create after the plan was made: those
// stay, and the import fails.
func (im *importer) prune(ctx context.Context) error {
	paths := make([]string, len(im.doomed))
	for i, rel := range im.doomed {
		paths[i] = treediff.Join(im.root, rel)
	}
	slices.Reverse(paths)
	size := func(path *string) int { return 24 + len(*path) }
	for batch := range treediff.Batches(treediff.Stream(paths), im.o.Batch, client.DefaultMaxRequest/2, size) {
		err := context.Cause(ctx)
		unknown := false
		if err == nil {
			unknown, err = deleteBatch(ctx, im.c, batch)
		}
		if err != nil {
			im.pruneStopped(batch, unknown)
			return err
		}
		im.report.Deleted += len(batch)
		im.report.Left -= len(batch)
		im.o.Progress(Progress{Doing: "deleting", Done: im.report.Deleted, Total: len(paths)})
	}
	return nil
}

// pruneStopped records the batch that was not deleted or whose outcome is unknown.
func (im *importer) pruneStopped(batch []string, unknown bool) {
	im.report.Next = relative(batch[0], im.root)
	if !unknown {
		return
	}
	for _, path := range batch {
		im.report.Unknown = append(im.report.Unknown, relative(path, im.root))
	}
}

// deleteBatch deletes some nodes, all or none. unknown reports that the outcome could not be
// determined.
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
