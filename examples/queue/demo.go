package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/queue"
)

// demo puts three items into a queue, and takes them out again.
func demo(ctx context.Context, c *client.Client, out io.Writer) (err error) {
	q, err := queue.New(c, "/examples/queue", queue.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close(context.WithoutCancel(ctx))) }()
	for _, item := range []string{"first", "second", "third"} {
		if err := q.Offer(ctx, []byte(item)); err != nil {
			return err
		}
		fmt.Fprintln(out, "offered", item)
	}
	for {
		item, ok, err := q.Poll(ctx)
		if err != nil {
			return err
		}
		if !ok {
			fmt.Fprintln(out, "the queue is empty")
			return nil
		}
		fmt.Fprintln(out, "took", string(item))
	}
}
