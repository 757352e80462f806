package cache_test

import (
	"context"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
)

// connect gives an example a separate server and a client.
func connect() (c *client.Client, done func()) {
	t := standin.Example()
	c, err := client.Connect(context.Background(), zktest.Start(t).ConnectString(), client.Options{Logger: client.NoLog})
	if err != nil {
		panic(err)
	}
	return c, func() {
		c.Close(context.Background())
		t.End()
	}
}
