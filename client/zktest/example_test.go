package zktest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/jute"
)

// The reply to a create gets lost. Was the node created? A plain session does not say; here it was.
func Example() {
	t := standin.Example() // your test has a *testing.T
	defer t.End()
	ctx := t.Context()

	s := zktest.Start(t)
	c := s.Client(t, zktest.Plain)
	cut := s.CutAfter(zktest.Op(jute.OpCreate))
	_, err := c.Create(ctx, "/a", nil, client.CreateOptions{})
	fmt.Println(errors.Is(err, client.ErrConnectionLoss), client.IsAmbiguous(err), cut.Err())
	found, err := c.Exists(ctx, "/a")
	fmt.Println(found.Exists, err)
	// Output:
	// true true <nil>
	// true <nil>
}

func ExampleStartEnsemble() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()

	e := zktest.StartEnsemble(t, 3)
	c := e.Client(t)
	made, err := c.Create(ctx, "/a", []byte("x"), client.CreateOptions{Mode: client.Ephemeral})
	fmt.Println(made.Path, err)
	killed := e.KillLeader()
	leader, err := e.WaitLeader(ctx)
	fmt.Println(leader != killed, err)
	node, err := c.WithRetry(client.DefaultRetry()).Get(ctx, "/a")
	fmt.Printf("%s %v\n", node.Data, err)
	// Output:
	// /a <nil>
	// true <nil>
	// x <nil>
}

func ExampleProxy_ExpireSession() {
	t := standin.Example()
	defer t.End()

	s := zktest.Start(t)
	c := s.Client(t)
	states := c.Session().States(context.Background())
	id := c.Session().ID()
	s.ExpireSession(id)
	for change := range states {
		fmt.Println(change.To)
		if change.To == client.StateExpired {
			break
		}
	}
	// Output:
	// suspended
	// expired
}

// A test that counts what a client asks the servers for.
func ExampleProxy_Requests() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()

	s := zktest.Start(t)
	c := s.Client(t)
	before := s.Requests()
	for range 3 {
		c.Get(ctx, "/")
	}
	c.Exists(ctx, "/a")
	asked := s.Requests().Since(before)
	fmt.Println(asked[jute.OpGetData], asked[jute.OpExists], asked.Total())
	// Output:
	// 3 1 4
}
