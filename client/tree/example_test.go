package tree_test

import (
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/tree"
)

func ExampleWalk() {
	ctx, c, stop := exampleClient()
	defer stop()

	settle.CreateAll(ctx, c, "/app/db/host", []byte("db1"), client.CreateOptions{})
	settle.CreateAll(ctx, c, "/app/cache", []byte("on"), client.CreateOptions{})
	for e, err := range tree.Walk(ctx, c, "/app", tree.WalkOptions{Data: true}) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Printf("%s %q\n", e.Path, e.Data)
	}
	// Output:
	// /app ""
	// /app/cache "on"
	// /app/db ""
	// /app/db/host "db1"
}

func ExampleDelete() {
	ctx, c, stop := exampleClient()
	defer stop()

	settle.Ensure(ctx, c, "/app/db/host", client.CreateOptions{})
	n, err := tree.Delete(ctx, c, "/app", tree.DeleteOptions{DryRun: true})
	fmt.Println("would delete", n, err)
	n, err = tree.Delete(ctx, c, "/app", tree.DeleteOptions{
		Progress: func(done, found int) { fmt.Println(done, "of", found) },
	})
	fmt.Println("deleted", n, err)
	// Output:
	// would delete 3 <nil>
	// 3 of 3
	// deleted 3 <nil>
}
