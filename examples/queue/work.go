package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/queue"
)

// workPath is where work is offered.
const workPath = "/examples/work"

// attempts is how often an item is tried before it is put aside.
const attempts = 5

func offer(ctx context.Context, c *client.Client, items []string) (err error) {
	q, err := queue.NewLeased(c, workPath, queue.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close(context.WithoutCancel(ctx))) }()
	work := make([][]byte, len(items))
	for i, item := range items {
		work[i] = []byte(item)
	}
	return q.OfferAll(ctx, work, queue.DefaultPriority)
}

// worker leases items, one at a time, and does something about each.
type worker struct {
	out  io.Writer
	most int // how many to do; 0 is no end
	// do does the work. ctx ends if the item is not ours any more; then somebody
	// else may be at it. What do changes should be fenced by the lease's token, or
	// do no harm if it is done twice.
	do func(ctx context.Context, l *queue.Lease) error
}

// show is work that is soon done.
func show(out io.Writer) func(context.Context, *queue.Lease) error {
	return func(_ context.Context, l *queue.Lease) error {
		_, err := fmt.Fprintf(out, "working on %s, attempt %d\n", l.Data(), l.Attempt())
		return err
	}
}

// work goes on until ctx ends, or enough is done. An item that was lost with the
// session is somebody else's; one that the worker fails on goes back.
func (w *worker) work(ctx context.Context, c *client.Client) (err error) {
	q, err := queue.NewLeased(c, workPath, queue.Options{MaxAttempts: attempts})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close(context.WithoutCancel(ctx))) }()
	for done := 0; w.most == 0 || done < w.most; {
		l, err := q.Take(ctx)
		if errors.Is(err, client.ErrSessionExpired) && !c.State().Final() {
			fmt.Fprintln(w.out, "the session has ended; going on with a new one")
			continue
		}
		if err != nil {
			return err
		}
		if w.one(ctx, l) {
			done++
		}
	}
	return nil
}

// one works on an item, and tells whether it is done.
func (w *worker) one(ctx context.Context, l *queue.Lease) bool {
	ending := l.Ack
	failure := w.do(l.Context(), l)
	if failure != nil {
		ending = l.Release
	}
	if err := errors.Join(failure, ending(context.WithoutCancel(ctx))); err != nil {
		fmt.Fprintf(w.out, "%s is not done: %v\n", l.Data(), err)
		return false
	}
	return true
}
