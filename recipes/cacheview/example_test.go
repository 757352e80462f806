package cacheview_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/cacheview"
)

func Example() {
	t := standin.Example() // in a test, this is its *testing.T
	defer t.End()
	c := zktest.Start(t).Client(t)
	ctx := context.Background()

	type worker struct{ Host string }
	workers, err := cacheview.OpenChildren(ctx, c, "/workers", cacheview.Options[worker]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer workers.Close(ctx)
	settle.CreateAll(ctx, c, "/workers/1", []byte(`{"Host": "a"}`), client.CreateOptions{})
	c.Create(ctx, "/workers/2", []byte(`{"Host": "b"}`), client.CreateOptions{})
	for change, err := range workers.Follow(ctx) {
		fmt.Println(change.Name, change.Now.Value.Host, err)
		if change.Name == "2" {
			break
		}
	}
	fmt.Println(workers.Current())
	// Output:
	// 1 a <nil>
	// 2 b <nil>
	// map[1:{a} 2:{b}] <nil>
}
