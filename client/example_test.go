package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/internal/trial"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
)

// The first ten things that one does.

func ExampleConnect() {
	servers, stop := trial.ExampleServers()
	defer stop()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, servers, client.Options{Logger: client.NoLog})
	if err != nil {
		fmt.Println(err) // says which servers were tried, and how each failed
		return
	}
	defer c.Close(ctx)
	fmt.Println(c.State())
	// Output: connected
}

func ExampleClient_Create() {
	ctx, c, stop := exampleClient()
	defer stop()

	made, err := c.Create(ctx, "/config", []byte("v1"), client.CreateOptions{})
	fmt.Println(made.Path, err)
	made, err = c.Create(ctx, "/config/task-", nil, client.CreateOptions{Mode: client.PersistentSequential})
	fmt.Println(made.Path, err)
	_, err = c.Create(ctx, "/config", nil, client.CreateOptions{})
	fmt.Println(err)
	// Output:
	// /config <nil>
	// /config/task-0000000000 <nil>
	// create /config: node already exists
}

func ExampleClient_Get() {
	ctx, c, stop := exampleClient()
	defer stop()

	c.Create(ctx, "/config", []byte("v1"), client.CreateOptions{})
	node, err := c.Get(ctx, "/config")
	fmt.Printf("%s, version %d, %v\n", node.Data, node.Stat.Version, err)
	// Output: v1, version 0, <nil>
}

// Two programs change the same node. The version keeps one from overwriting what it
// has not seen.
func ExampleClient_Set() {
	ctx, c, stop := exampleClient()
	defer stop()

	c.Create(ctx, "/counter", []byte("1"), client.CreateOptions{})
	node, _ := c.Get(ctx, "/counter")
	c.Set(ctx, "/counter", []byte("10"), client.AnyVersion) // somebody else

	_, err := c.Set(ctx, "/counter", []byte("2"), node.Stat.Version)
	fmt.Println(errors.Is(err, client.ErrBadVersion))
	fmt.Println(err)
	// Output:
	// true
	// setData /counter: version conflict
}

func ExampleClient_Children() {
	ctx, c, stop := exampleClient()
	defer stop()

	settle.CreateAll(ctx, c, "/workers/b", nil, client.CreateOptions{Mode: client.Ephemeral}) // with its parents
	c.Create(ctx, "/workers/a", nil, client.CreateOptions{Mode: client.Ephemeral})
	list, err := c.Children(ctx, "/workers")
	slices.Sort(list.Names)
	fmt.Println(list.Names, err)
	// Output: [a b] <nil>
}

// A one-shot watch tells of the first change after the read.
func ExampleClient_GetW() {
	ctx, c, stop := exampleClient()
	defer stop()

	c.Create(ctx, "/config", []byte("v1"), client.CreateOptions{})
	node, err := c.GetW(ctx, "/config")
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Set(ctx, "/config", []byte("v2"), client.AnyVersion)
	ev, err := node.Watch.Next(ctx)
	fmt.Println(ev.Type, ev.Path, err)
	// Output: NodeDataChanged /config <nil>
}

// A persistent, recursive watch tells of everything below a node.
func ExampleClient_AddWatch() {
	ctx, c, stop := exampleClient()
	defer stop()

	watch, err := c.AddWatch(ctx, "/", client.WatchRecursive)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer watch.Close(ctx)
	settle.CreateAll(ctx, c, "/a/b", nil, client.CreateOptions{})
	c.Delete(ctx, "/a/b", client.AnyVersion)
	for range 3 {
		ev, _ := watch.Next(ctx)
		fmt.Println(ev.Type, ev.Path)
	}
	// Output:
	// NodeCreated /a
	// NodeCreated /a/b
	// NodeDeleted /a/b
}

// All of it happens, or nothing.
func ExampleClient_Multi() {
	ctx, c, stop := exampleClient()
	defer stop()

	_, err := c.Multi(ctx,
		client.CreateOp("/order", []byte("3 apples"), client.CreateOptions{}),
		client.SetOp("/stock", []byte("7"), 4))
	fmt.Println(err)
	found, _ := c.Exists(ctx, "/order")
	fmt.Println(found.Exists)
	// Output:
	// multi /order: node does not exist: operation 1, setData /stock
	// false
}

// Hundreds of requests are under way at once.
func ExampleClient_Async() {
	ctx, c, stop := exampleClient()
	defer stop()

	a := c.Async()
	var created []*client.Future[client.Created]
	for i := range 500 {
		created = append(created, a.Create(fmt.Sprintf("/n%d", i), nil, client.CreateOptions{}))
	}
	failed := 0
	for _, f := range created {
		if _, err := f.Wait(ctx); err != nil {
			failed++
		}
	}
	fmt.Println(failed, "failed")

	done := make(chan struct{})
	a.Get("/n17", func(n client.Node, err error) { // instead of waiting
		fmt.Println("version", n.Stat.Version, err)
		close(done)
	})
	<-done
	// Output:
	// 0 failed
	// version 0 <nil>
}

// What fails in a plain session because the connection broke may have been done.
func ExampleIsAmbiguous() {
	t := trial.NewExample()
	defer t.End()
	proxy := zktest.NewProxy(t, t.Servers())
	ctx := context.Background()
	c, err := client.Connect(ctx, proxy.ConnectString()+t.Root, client.Options{PlainSession: true, Logger: client.NoLog})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)

	proxy.CutAfter(zktest.Writes()) // the next write is done, but its reply gets lost
	_, err = c.Create(ctx, "/a", nil, client.CreateOptions{})
	fmt.Println(errors.Is(err, client.ErrConnectionLoss), client.IsAmbiguous(err))

	// This one takes care of it.
	proxy.CutAfter(zktest.Writes())
	_, err = settle.Create(ctx, c, "/b", nil, settle.CreateOptions{})
	fmt.Println(err)
	// Output:
	// true true
	// <nil>
}
