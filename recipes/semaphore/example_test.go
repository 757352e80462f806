package semaphore_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/semaphore"
)

// Of three licences two are in use, so there is one left.
func Example() {
	t := standin.Example()
	defer t.End()
	ctx := context.Background()
	c, _ := client.Connect(ctx, zktest.Start(t).ConnectString(), client.Options{Logger: client.NoLog})
	defer c.Close(ctx)

	licences, err := semaphore.New(c, "/locks/licences", 3, semaphore.Options{})
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
	fmt.Println(another.Return(ctx), lease.Return(ctx))
	// Output:
	// two more: false one more: true
	// <nil> <nil>
}
