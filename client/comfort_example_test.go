package client_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
)

// Reads of the view are tried again when the connection breaks; a change only if it
// is known that it was not done.
func ExampleClient_WithRetry() {
	ctx, c, stop := exampleClient()
	defer stop()

	steady := c.WithRetry(client.DefaultRetry())
	_, err := steady.Create(ctx, "/status", []byte("idle"), client.CreateOptions{})
	if client.IsAmbiguous(err) {
		fmt.Println("look before you create it again")
	}
	node, err := steady.Get(ctx, "/status")
	fmt.Printf("%s, %v\n", node.Data, err)
	// Output: idle, <nil>
}

// Several operations that can be repeated as a whole.
func ExampleRetryPolicy_Do() {
	ctx, c, stop := exampleClient()
	defer stop()

	policy := &client.RetryPolicy{Attempts: 5, Backoff: 100 * time.Millisecond, MaxBackoff: time.Second}
	err := policy.Do(ctx, client.IsTransient, func(ctx context.Context) error {
		if err := settle.Ensure(ctx, c, "/app/workers", client.CreateOptions{}); err != nil {
			return err
		}
		return settle.Ensure(ctx, c, "/app/tasks", client.CreateOptions{})
	})
	fmt.Println(err)
	// Output: <nil>
}
