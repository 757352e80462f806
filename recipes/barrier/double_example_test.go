package barrier_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/barrier"
)

// Three workers begin together and end together.
func ExampleDouble() {
	t := standin.Example()
	defer t.End()
	servers := zktest.Start(t).ConnectString()

	ctx := context.Background()
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			c, err := client.Connect(ctx, servers, client.Options{Logger: client.NoLog})
			if err != nil {
				fmt.Println(err)
				return
			}
			defer c.Close(ctx)
			b, err := barrier.NewDouble(c, "/job/42", 3, barrier.Options{})
			if err != nil {
				fmt.Println(err)
				return
			}
			in, err := b.Enter(ctx)
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println("working") // until in.Context() ends, at the latest
			if err := in.Release(ctx); err != nil {
				fmt.Println(err)
			}
		})
	}
	workers.Wait()
	fmt.Println("all have left")
	// Output:
	// working
	// working
	// working
	// all have left
}
