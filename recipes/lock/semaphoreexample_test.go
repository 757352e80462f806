package lock_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/lock"
)

// Of three licences two are in use, so there is one left.
func ExampleSemaphore() {
	t := standin.Example()
	defer t.End()
	ctx := context.Background()
	c, _ := client.Connect(ctx, zktest.Start(t).ConnectString(), client.Options{Logger: client.NoLog})
	defer c.Close(ctx)

	licences, err := lock.NewSemaphore(c, "/locks/licences", 3, hold.Options{})
	if err != nil {
		fmt.Println(err) // the path, the number, or an option
		return
	}
	lease, err := licences.Acquire(ctx, 2) // waits until two are free
	if err != nil {
		fmt.Println(err)
		return
	}
	_, two, _ := licences.TryAcquire(ctx, 2)
	another, one, _ := licences.TryAcquire(ctx, 1)
	fmt.Println("two more:", two, "one more:", one)
	fmt.Println(another.Release(ctx), lease.Release(ctx))
	// Output:
	// two more: false one more: true
	// <nil> <nil>
}
