package barrier_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/barrier"
)

// A worker waits while there is maintenance.
func Example() {
	t := standin.Example()
	defer t.End()
	servers := zktest.Start(t).ConnectString()

	ctx := context.Background()
	c, err := client.Connect(ctx, servers, client.Options{Logger: client.NoLog})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	maintenance, err := barrier.New(c, "/maintenance", barrier.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("set:", maintenance.Set(ctx))

	worked := make(chan error)
	go func() { worked <- maintenance.Wait(ctx) }()

	fmt.Println("removed:", maintenance.Remove(ctx))
	fmt.Println("the worker continues:", <-worked)
	// Output:
	// set: <nil>
	// removed: <nil>
	// the worker continues: <nil>
}
