package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// TwoPhase is a queue to which an offer can be repeated until it has succeeded, even after
// the end of its session or its process: the item is in the queue once. It is for producers
// that remember what they offer, and for which an ErrUnknown is not enough.
//
// An item is a draft first, which nobody can take, and then becomes consumable in one
// change. Items are taken in the order in which their drafts were made; drafts delay no
// other item. Consumers need servers that know recursive watches: Apache ZooKeeper 3.6 or
// later. It may be used from any goroutine.
type TwoPhase struct{ consumer }

// NewTwoPhase returns the queue at path. It sends no request.
func NewTwoPhase(c *client.Client, path string, o Options) (*TwoPhase, error) {
	if o.Layout != 0 || o.Unordered || o.Ephemeral || o.Offers != ExactlyOnce {
		return nil, fmt.Errorf("queue: a two-phase queue has its own layout, order and way to offer: Options.Layout and Options.Offers should be 0, and Unordered and Ephemeral false")
	}
	q := &TwoPhase{}
	if err := q.initLive(c, path, o, flagNaming); err != nil {
		return nil, err
	}
	return q, nil
}

// Sweep removes drafts that are older than age by the leader's clock, and returns how many.
// Their producers have died, or have made other drafts. It never removes an item that has
// become consumable.
//
// A producer that returns to a draft that was removed finds no node, as if the item had been
// taken, and its item is lost. So age must be longer than any producer repeats an offer: a
// day, say. The error says why drafts were left, if some were.
func (q *TwoPhase) Sweep(ctx context.Context, age time.Duration) (removed int, err error) {
	if age <= 0 {
		return 0, badArgument(q.path, fmt.Sprintf("the age is %v: it should be positive", age))
	}
	ctx, end, err := q.life.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	return line.Sweep(ctx, q.c, q.dir, age, 0, q.drafts) // not 1, which has the flag: it can be taken
}

// drafts returns the paths of drafts that were made before a time in milliseconds.
func (q *TwoPhase) drafts(ctx context.Context, before int64) (paths []string, err error) {
	for e, err := range tree.Walk(ctx, q.c, q.dir, tree.WalkOptions{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		if e.Depth == 0 {
			continue
		}
		if _, err := q.naming.parseAll(q.dir, []string{line.Base(e.Path)}); err != nil {
			return nil, err
		}
		if e.Stat.Version == 0 && e.Stat.Ctime <= before {
			paths = append(paths, e.Path)
		}
	}
	return paths, nil
}
