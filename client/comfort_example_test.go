package client_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
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
		if err := c.EnsurePath(ctx, "/app/workers", nil); err != nil {
			return err
		}
		return c.EnsurePath(ctx, "/app/tasks", nil)
	})
	fmt.Println(err)
	// Output: <nil>
}

// The node of a lock: made once, whatever happens to the connection.
func ExampleClient_CreateProtected() {
	ctx, c, stop := exampleClient()
	defer stop()

	c.EnsurePath(ctx, "/lock", nil)
	path, err := c.CreateProtected(ctx, "/lock/n-", nil, client.EphemeralSequential, nil)
	plain, _, _ := client.ProtectedName(path[len("/lock/"):])
	fmt.Println(plain, err)
	fmt.Println(c.DeleteGuaranteed(ctx, path))
	// Output:
	// n-0000000000 <nil>
	// <nil>
}

func ExampleClient_Walk() {
	ctx, c, stop := exampleClient()
	defer stop()

	c.CreateAll(ctx, "/app/db/host", []byte("db1"), client.Persistent, nil)
	c.CreateAll(ctx, "/app/cache", []byte("on"), client.Persistent, nil)
	for e, err := range c.Walk(ctx, "/app", client.WalkOptions{Data: true}) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Printf("%s %q\n", e.Path, e.Data)
	}
	// Output:
	// /app ""
	// /app/cache "on"
	// /app/db ""
	// /app/db/host "db1"
}

func ExampleClient_DeleteAll() {
	ctx, c, stop := exampleClient()
	defer stop()

	c.EnsurePath(ctx, "/app/db/host", nil)
	n, err := c.DeleteAll(ctx, "/app", client.DeleteOptions{DryRun: true})
	fmt.Println("would delete", n, err)
	n, err = c.DeleteAll(ctx, "/app", client.DeleteOptions{
		Progress: func(done, found int) { fmt.Println(done, "of", found) },
	})
	fmt.Println("deleted", n, err)
	// Output:
	// would delete 3 <nil>
	// 3 of 3
	// deleted 3 <nil>
}

func ExampleTyped() {
	ctx, c, stop := exampleClient()
	defer stop()

	type limits struct{ Rate, Burst int }
	node := client.NewTyped[limits](c, "/limits", nil) // as JSON
	node.Create(ctx, limits{Rate: 10, Burst: 20}, client.Persistent, nil)
	v, stat, err := node.Update(ctx, func(l limits) (limits, error) {
		l.Rate *= 2
		return l, nil
	})
	fmt.Println(v, stat.Version, err)
	// Output: {20 20} 1 <nil>
}

func ExampleTyped_Follow() {
	ctx, c, stop := exampleClient()
	defer stop()

	node := client.NewTyped(c, "/greeting", client.String{})
	for v, err := range node.Follow(ctx) {
		if err != nil {
			fmt.Println(err)
			break
		}
		if !v.Exists {
			fmt.Println("not there yet")
			node.Create(ctx, "hello", client.Persistent, nil)
			continue
		}
		fmt.Println(v.Value)
		break
	}
	// Output:
	// not there yet
	// hello
}
