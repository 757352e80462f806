package presence_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/presence"
)

func ExamplePartitioner() {
	t := standin.Example()
	defer t.End()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	servers := zktest.Start(t).ConnectString()
	c, err := client.Connect(ctx, servers, client.Options{RenewSession: true, Logger: client.NoLog})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(context.Background())

	p, err := presence.NewPartitioner(c, "/queues", []string{"q1", "q2", "q3"}, presence.PartitionerOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		for state := range p.Follow(ctx) {
			if state.Phase == presence.Acquired {
				fmt.Println(state.Owned)
				cancel()
				return
			}
		}
	}()
	err = p.Run(ctx, func(ctx context.Context, own *presence.Partition) {
		<-ctx.Done() // or serve own.Name() until then
	})
	fmt.Println(err)
	// Output:
	// [q1 q2 q3]
	// context canceled
}
