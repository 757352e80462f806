package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
)

// Delay is a queue whose items can be taken from a time on that each has of its own;
// the earliest comes first. Consumers go by their own clock, Options.Clock: one that is
// fast takes items early, and one that is slow takes them late. Peek returns the
// first item whether or not its time has come. It needs servers that know recursive
// watches: Apache ZooKeeper 3.6 or later.
//
// All its methods may be called from any goroutine. It runs none of its own.
type Delay struct{ live }

// NewDelay returns the delay queue at path. It does not talk to the servers.
func NewDelay(c *client.Client, path string, o Options) (*Delay, error) {
	if o.Layout != 0 || o.Unordered {
		return nil, fmt.Errorf("queue: a delay queue has its own layout and order: Options.Layout should be 0, and Unordered false")
	}
	q := &Delay{}
	if err := q.init(c, path, o, delayNaming); err != nil {
		return nil, err
	}
	return q, nil
}

// Offer adds an item that can be taken at that time, cut to milliseconds, or later: see
// Queue.Offer. Times before 1970 are errors.
func (q *Delay) Offer(ctx context.Context, data []byte, at time.Time) error {
	return q.OfferAll(ctx, [][]byte{data}, at)
}

// OfferAll adds items of one time: see Queue.OfferAll.
func (q *Delay) OfferAll(ctx context.Context, items [][]byte, at time.Time) error {
	return q.ranked(ctx, at.UnixMilli(), fmt.Sprintf("the time is %v: it should be in 1970 or later", at), items)
}
