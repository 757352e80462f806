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
	ctx := t.Context()
	c := zktest.Start(t).Client(t, func(o *client.Options) { o.RenewSession = true })

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

func ExampleDirectory() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()
	c := zktest.Start(t).Client(t, func(o *client.Options) { o.RenewSession = true })

	d, err := presence.NewDirectory(c, "/services", presence.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, host := range []string{"10.0.0.1", "10.0.0.2"} {
		reg, err := d.Register(ctx, presence.Instance{
			Name: "web", ID: host, Address: host, Port: 8080, URISpec: "{scheme}://{address}:{port}/",
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer reg.Release(ctx)
	}

	web, err := d.Open(ctx, "web", presence.ProviderOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer web.Close(ctx)
	for range 3 {
		instance, err := web.Pick(ctx)
		fmt.Println(instance.URI(), err)
	}
	// Output:
	// http://10.0.0.1:8080/ <nil>
	// http://10.0.0.2:8080/ <nil>
	// http://10.0.0.1:8080/ <nil>
}

func ExampleGroup() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()
	c := zktest.Start(t).Client(t, func(o *client.Options) { o.RenewSession = true })

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

func ExampleNode() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()
	c := zktest.Start(t).Client(t, func(o *client.Options) { o.RenewSession = true })

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

func ExamplePartitioner() {
	t := standin.Example()
	defer t.End()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := zktest.Start(t).Client(t, func(o *client.Options) { o.RenewSession = true })

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
