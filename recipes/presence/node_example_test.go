package presence_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/presence"
)

func ExampleNode() {
	t := standin.Example()
	defer t.End()
	ctx := context.Background()
	servers := zktest.Start(t).ConnectString()
	c, err := client.Connect(ctx, servers, client.Options{RenewSession: true, Logger: client.NoLog})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)

	node, err := presence.NewNode(c, "/workers/w1", presence.NodeOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	node.Start([]byte("idle"))
	node.WaitThere(ctx)
	node.SetData(ctx, []byte("busy"))

	node2, err := c.Get(ctx, "/workers/w1")
	fmt.Printf("%s, %v\n", node2.Data, err)
	node.Close(ctx)
	found, err := c.Exists(ctx, "/workers/w1")
	fmt.Println(found.Exists, err)
	// Output:
	// busy, <nil>
	// false <nil>
}
