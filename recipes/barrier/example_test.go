package barrier_test

import (
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/barrier"
)

// A worker waits while there is maintenance.
func Example() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()
	c := zktest.Start(t).Client(t)
	maintenance, err := barrier.New(c, "/maintenance", barrier.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("set:", maintenance.Set(ctx))

	worked := make(chan error)
	go func() { worked <- maintenance.Wait(ctx) }()

	fmt.Println("removed:", maintenance.Remove(ctx))
	fmt.Println("the worker continues:", <-worked)
	// Output:
	// set: <nil>
	// removed: <nil>
	// the worker continues: <nil>
}

// Three workers begin together and end together.
func ExampleDouble() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()
	servers := zktest.Start(t)
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			b, err := barrier.NewDouble(servers.Client(t), "/job/42", 3, barrier.Options{})
			if err != nil {
				fmt.Println(err)
				return
			}
			in, err := b.Enter(ctx)
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println("working") // until in.Context() ends, at the latest
			if err := in.Release(ctx); err != nil {
				fmt.Println(err)
			}
		})
	}
	workers.Wait()
	fmt.Println("all have left")
	// Output:
	// working
	// working
	// working
	// all have left
}

// Each Set releases one worker.
func ExampleEvent() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()
	c := zktest.Start(t).Client(t)
	work, err := barrier.NewEvent(c, "/events/work", barrier.AutoReset, barrier.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	for range 2 {
		go func() { done <- work.Wait(ctx) }()
	}
	for range 2 {
		if err := work.Set(ctx); err != nil {
			fmt.Println(err)
		}
		fmt.Println("a worker continues:", <-done)
	}
	// Output:
	// a worker continues: <nil>
	// a worker continues: <nil>
}

// Two players find each other.
func ExampleRendezvous() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()
	c := zktest.Start(t).Client(t)
	games, err := barrier.NewRendezvous(c, "/games", 2, barrier.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	play := func(name string) string {
		m, err := games.Meet(ctx, []byte(name))
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s plays %s", name, m.Values[1-m.Own])
	}
	bob := make(chan string)
	go func() { bob <- play("bob") }()
	fmt.Println(play("ann"))
	fmt.Println(<-bob)
	// Output:
	// ann plays bob
	// bob plays ann
}
