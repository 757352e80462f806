package idempotent_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/idempotent"
)

func Example() {
	t := standin.Example() // in a test, this is its *testing.T
	defer t.End()
	c := zktest.Start(t).Client(t)
	ctx := context.Background()
	for path, data := range map[string]string{"/anna": "10", "/ben": "0"} {
		c.Create(ctx, path, []byte(data), client.CreateOptions{})
	}

	requests, err := idempotent.New(c, "/transfers", idempotent.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 { // the second time as a program that has died and started again
		done, err := requests.Do(ctx, "anna to ben, 2024-05-01",
			client.SetOp("/anna", []byte("7"), 0),
			client.SetOp("/ben", []byte("3"), 0))
		fmt.Println("before:", done.Before, err)
	}
	for _, path := range []string{"/anna", "/ben"} {
		node, err := c.Get(ctx, path)
		fmt.Printf("%s %s, changed %d times, %v\n", path, node.Data, node.Stat.Version, err)
	}
	// Output:
	// before: false <nil>
	// before: true <nil>
	// /anna 7, changed 1 times, <nil>
	// /ben 3, changed 1 times, <nil>
}
