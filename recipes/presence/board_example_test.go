package presence_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/presence"
)

func ExampleBoard() {
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

	board, err := presence.NewBoard(c, "/workers", presence.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	me, err := board.Register(ctx, "w1", "idle")
	if err != nil {
		fmt.Println(err)
		return
	}
	for view, err := range board.Follow(ctx) {
		if err != nil {
			fmt.Println(err)
			break
		}
		for _, w := range view.Changed {
			fmt.Println(w.ID, "is", w.Status)
		}
		for _, w := range view.Gone {
			fmt.Println(w.ID, "is gone, and was", w.Status)
		}
		if len(view.Workers) == 0 {
			break
		}
		if view.Workers[0].Status == "idle" {
			me.Post("working on task 7")
		} else {
			me.Release(ctx)
		}
	}
	// Output:
	// w1 is idle
	// w1 is working on task 7
	// w1 is gone, and was working on task 7
}
