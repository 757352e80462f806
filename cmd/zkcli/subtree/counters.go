package subtree

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/treediff"
)

// A node counts the children that were ever created below it, and sequential nodes get their
// numbers from that. A subtree that is created again counts from the children that are left,
// so a new sequential node could get the number of an old one, or sort before it. Only
// creating children raises a counter: raiseCounters creates and deletes a child until the
// counter is that of the file.

// creations returns a node's counter, derived from the cversion that servers show: twice the
// creations less the current children.
func creations(s client.Stat) int32 {
	return int32((int64(s.Cversion) + int64(s.NumChildren)) / 2)
}

const counterName = "/zkcli-counter"

func (im *importer) raiseCounters(ctx context.Context, batch []Node) error {
	if !im.o.Counters {
		return nil
	}
	for i := range batch {
		n := &batch[i]
		if im.leftOut(n) || creations(n.Stat) <= n.Stat.NumChildren {
			continue // none was ever deleted
		}
		raised, err := im.raiseCounter(ctx, treediff.Join(im.root, n.Path), creations(n.Stat))
		if raised {
			im.report.Counters++
		}
		if err != nil {
			im.report.Next = n.Path
			return err
		}
	}
	return nil
}

// raiseCounter raises one counter in rounds. Each round reads the counter first, so a lost
// connection does no harm.
func (im *importer) raiseCounter(ctx context.Context, path string, want int32) (raised bool, err error) {
	top := path
	if top == "/" {
		top = ""
	}
	for {
		found, err := im.c.Exists(ctx, path)
		if errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil {
			continue
		}
		missing := int(want) - int(creations(found.Stat))
		if err != nil || !found.Exists || missing <= 0 {
			return raised, err
		}
		pairs := min(missing, im.o.Batch/2+1, im.o.MaxBytes/(2*len(path)+200)+1)
		var ops []client.Op
		for range pairs {
			ops = append(ops, client.CreateOp(top+counterName, nil, client.CreateOptions{}),
				client.DeleteOp(top+counterName, client.AnyVersion))
		}
		_, err = im.c.Multi(ctx, ops...)
		if err != nil && !errors.Is(err, client.ErrConnectionLoss) {
			return raised, err
		}
		raised = true
	}
}
