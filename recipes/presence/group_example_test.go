package presence_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/presence"
)

func ExampleGroup() {
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

	g, err := presence.NewGroup(c, "/workers", presence.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	me, err := g.Join(ctx, "w1", []byte("10.0.0.1:8080"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for view, err := range g.Follow(ctx) {
		if err != nil {
			fmt.Println(err)
			break
		}
		for _, m := range view.Joined {
			fmt.Printf("%s has joined: %s\n", m.ID, m.Data)
		}
		for _, m := range view.Left {
			fmt.Println(m.ID, "has left")
		}
		if len(view.Members) == 0 {
			break
		}
		me.Release(ctx)
	}
	// Output:
	// w1 has joined: 10.0.0.1:8080
	// w1 has left
}
