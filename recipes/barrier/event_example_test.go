package barrier_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/barrier"
)

// Each Set releases one worker.
func ExampleEvent() {
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
	work, err := barrier.NewEvent(c, "/events/work", barrier.AutoReset, barrier.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	for range 2 {
		go func() { done <- work.Wait(ctx) }()
	}
	for range 2 {
		if err := work.Set(ctx); err != nil {
			fmt.Println(err)
		}
		fmt.Println("a worker continues:", <-done)
	}
	// Output:
	// a worker continues: <nil>
	// a worker continues: <nil>
}
