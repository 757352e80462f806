package presence_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/presence"
)

func ExampleDirectory() {
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
