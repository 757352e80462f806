package cache_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/client/settle"
)

// Which services exist, and when does that change?
func Example() {
	c, done := connect()
	defer done()
	ctx := context.Background()
	create := func(path, data string) {
		if _, err := settle.CreateAll(ctx, c, path, []byte(data), client.CreateOptions{}); err != nil {
			fmt.Println(err)
		}
	}
	create("/services/web/1", "10.0.0.1:80")
	create("/services/web/2", "10.0.0.2:80")

	services, err := cache.Open(ctx, c, "/services", cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer services.Close()
	if err := services.WaitReady(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range services.Children("/services/web") {
		node, _ := services.Get("/services/web/" + name)
		fmt.Printf("%s is at %s\n", name, node.Data)
	}

	create("/services/web/3", "10.0.0.3:80")
	if err := services.Sync(ctx); err != nil { // needed by those who can't wait for the event
		fmt.Println(err)
	}
	fmt.Println(services.Children("/services/web"))
	// Output:
	// 1 is at 10.0.0.1:80
	// 2 is at 10.0.0.2:80
	// [1 2 3]
}

// Keep something in step with a subtree: all that is there comes as Added first.
func ExampleCache_Events() {
	c, done := connect()
	defer done()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := settle.CreateAll(ctx, c, "/flags/dark", []byte("off"), client.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	flags, err := cache.Open(ctx, c, "/flags", cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer flags.Close()
	for ev := range flags.Events(ctx) {
		switch {
		case ev.Type == cache.Added, ev.DataChanged(), ev.Type == cache.Removed:
			fmt.Printf("%v %q\n", ev, ev.Node.Data)
		case ev.Type == cache.Ready:
			fmt.Println("that is all for now")
			if _, err := c.Set(ctx, "/flags/dark", []byte("on"), client.AnyVersion); err != nil {
				fmt.Println(err)
			}
		}
		if string(ev.Node.Data) == "on" {
			return
		}
	}
	// Output:
	// added /flags ""
	// added /flags/dark "off"
	// that is all for now
	// changed /flags/dark "on"
}
