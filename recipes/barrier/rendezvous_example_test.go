package barrier_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/barrier"
)

// Two players find each other.
func ExampleRendezvous() {
	t := standin.Example()
	defer t.End()
	servers := zktest.Start(t).ConnectString()

	ctx := context.Background()
	c, err := client.Connect(ctx, servers, client.Options{Logger: client.NoLog})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
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
