package trial

import (
	"context"
	"os"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
)

// The servers of the examples: a new server, or the servers that ZKD_TEST_SERVERS names.

// ExampleTest is an example's substitute for a *testing.T.
type ExampleTest struct {
	*standin.T
	Root string
}

// NewExample returns one.
func NewExample() *ExampleTest { return &ExampleTest{T: standin.Example()} }

// Servers returns the address of a server, and makes the node t.Root on it, which contains
// the example's nodes.
func (t *ExampleTest) Servers() string {
	servers, _, _ := strings.Cut(os.Getenv("ZKD_TEST_SERVERS"), ",")
	if servers == "" {
		servers = zktest.Start(t).ConnectString()
	}
	ctx := context.Background()
	c, err := client.Connect(ctx, servers, client.Options{Logger: client.NoLog})
	if err != nil {
		t.Fatalf("connect to %s: %v", servers, err)
	}
	made, err := c.Create(ctx, "/example-", nil, client.CreateOptions{Mode: client.PersistentSequential})
	if err != nil {
		t.Fatalf("create the examples' root: %v", err)
	}
	t.Root = made.Path
	t.Cleanup(func() {
		tree.Delete(ctx, c, t.Root, tree.DeleteOptions{})
		c.Close(ctx)
	})
	return servers
}

// ExampleServers returns the servers of an example and its root.
func ExampleServers() (servers string, stop func()) {
	t := NewExample()
	servers = t.Servers()
	return servers + t.Root, t.End
}

// Example returns a client for an example.
func Example() (context.Context, *client.Client, func()) {
	t := NewExample()
	servers := t.Servers()
	ctx := context.Background()
	c, err := client.Connect(ctx, servers+t.Root, client.Options{Logger: client.NoLog})
	if err != nil {
		t.Fatalf("connect to %s: %v", servers, err)
	}
	return ctx, c, func() {
		c.Close(ctx)
		t.End()
	}
}
