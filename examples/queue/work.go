package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/queue"
)

// workPath is the path of the queue.
const workPath = "/examples/work"

// attempts is how often an item is tried before it is set aside.
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

// worker leases items, one at a time, and processes them.
type worker struct {
	out  io.Writer
	most int // number of items; 0 means no limit
	// do processes an item. ctx ends if the lease is lost; then another worker may process
	// the item. Changes should be fenced by the lease's token, or do no harm if they are done
	// twice.
	do func(ctx context.Context, l *queue.Lease) error
}

// show is a short piece of work.
func show(out io.Writer) func(context.Context, *queue.Lease) error {
	return func(_ context.Context, l *queue.Lease) error {
		_, err := fmt.Fprintf(out, "working on %s, attempt %d\n", l.Data(), l.Attempt())
		return err
	}
}

// work runs until ctx ends, or enough items are done. An item that was lost with the session
// belongs to another worker; one that the worker fails to process returns to the queue.
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

// one works on an item, and reports whether it is done.
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
