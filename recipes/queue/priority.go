package queue

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
)

// Priority is a queue of which the items with the lowest priority number are taken
// first, and those that have the same first in, first out. An item that comes while
// others are being taken, and has a lower number, is the next one. It needs servers
// that know recursive watches: Apache ZooKeeper 3.6 or later.
//
// All its methods may be called from any goroutine. It runs none of its own.
type Priority struct{ live }

// NewPriority returns the priority queue at path. It does not talk to the servers.
// Options.Layout is Kazoo if it is 0.
func NewPriority(c *client.Client, path string, o Options) (*Priority, error) {
	switch {
	case o.Layout == 0:
		o.Layout = Kazoo
	case o.Layout == Apache:
		return nil, fmt.Errorf("queue: Options.Layout is Apache, which has no priorities: it should be Kazoo or Book")
	}
	if o.Unordered {
		return nil, fmt.Errorf("queue: Options.Unordered has no place in a priority queue")
	}
	q := &Priority{}
	if err := q.init(c, path, o, o.Layout.naming()); err != nil {
		return nil, err
	}
	return q, nil
}

// Offer adds an item: see Queue.Offer. Priorities are 0, which is the highest, to 999,
// and with the layout Book to 99.
func (q *Priority) Offer(ctx context.Context, data []byte, priority int) error {
	return q.OfferAll(ctx, [][]byte{data}, priority)
}

// OfferAll adds items of one priority: see Queue.OfferAll.
func (q *Priority) OfferAll(ctx context.Context, items [][]byte, priority int) error {
	return q.ranked(ctx, int64(priority), fmt.Sprintf("the priority is %d: it should be 0 to %d", priority, q.naming.most), items)
}
