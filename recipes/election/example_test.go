package election_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/hold"
)

// One candidate leads, says that it is ready, and others hear of it.
func Example() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()
	c := zktest.Start(t).Client(t)

	l, err := election.NewLatch(c, "/app/leader", election.Options{Options: hold.Options{Data: []byte("host-1")}})
	if err != nil {
		fmt.Println(err) // the path, or an option
		return
	}
	defer l.Close(ctx)
	l.Start()
	leadership, err := l.Await(ctx)
	if err != nil {
		fmt.Println(err) // ctx has ended, or the servers refuse
		return
	}
	leadership.Acknowledge(ctx, []byte("10.0.0.1:8080"))

	leader, err := l.Election().WaitAcknowledged(ctx)
	fmt.Printf("%s at %s, %v\n", leader.Data, leader.Acknowledgement, err)
	fmt.Println(leadership.Release(ctx))
	// Output:
	// host-1 at 10.0.0.1:8080, <nil>
	// <nil>
}

// The mastership of the book: the candidate that creates the node is master.
func ExampleMaster_Run() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()
	c := zktest.Start(t).Client(t)

	m, err := election.NewMaster(c, "/master", hold.Options{Data: []byte("host-1")})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = m.Run(ctx, func(ctx context.Context, ms *election.Mastership) error {
		master, _, err := m.Current(ctx)
		fmt.Println(string(master.Data), "is master:", master.Token == ms.Token())
		return err
	})
	fmt.Println(err)
	// Output:
	// host-1 is master: true
	// <nil>
}
