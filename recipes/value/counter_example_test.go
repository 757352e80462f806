package value_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/value"
)

func ExampleCounter() {
	t := standin.Example() // in a test, this is its *testing.T
	defer t.End()
	c := zktest.Start(t).Client(t)
	ctx := context.Background()

	orders, err := value.NewCounter(c, "/app/orders", value.CounterOptions{Seed: 1000, Exact: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer orders.Close(ctx)
	for range 2 {
		n, err := orders.Increment(ctx)
		if err != nil {
			fmt.Println(err) // the number may be used if client.IsAmbiguous(err)
			return
		}
		fmt.Println("order", n.After)
	}
	// Output:
	// order 1001
	// order 1002
}
