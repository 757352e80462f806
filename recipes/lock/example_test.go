package lock_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/lock"
)

// Of several callers one at a time adds up.
func Example() {
	t := standin.Example()
	defer t.End()
	ctx := context.Background()
	c, _ := client.Connect(ctx, zktest.Start(t).ConnectString(), client.Options{Logger: client.NoLog})
	defer c.Close(ctx)

	m, err := lock.NewMutex(c, "/locks/sum", lock.Options{Options: hold.Options{Data: []byte("example")}})
	if err != nil {
		fmt.Println(err) // the path, or an option
		return
	}
	sum, err := lock.With(ctx, m, func(ctx context.Context) (int, error) {
		who, err := m.Contenders(ctx)
		fmt.Printf("%d holds or waits: %s\n", len(who), who[0].Data)
		return 1 + 1, err
	})
	fmt.Println(sum, err)
	// Output:
	// 1 holds or waits: example
	// 2 <nil>
}
