package typed_test

import (
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/typed"
)

func ExampleNode() {
	ctx, c, stop := exampleClient()
	defer stop()

	type limits struct{ Rate, Burst int }
	node := typed.New[limits](c, "/limits", nil) // as JSON
	node.Create(ctx, limits{Rate: 10, Burst: 20}, client.CreateOptions{})
	v, stat, err := node.Update(ctx, func(l limits) (limits, error) {
		l.Rate *= 2
		return l, nil
	})
	fmt.Println(v, stat.Version, err)
	// Output: {20 20} 1 <nil>
}

func ExampleNode_Follow() {
	ctx, c, stop := exampleClient()
	defer stop()

	node := typed.New(c, "/greeting", typed.String{})
	for v, err := range node.Follow(ctx) {
		if err != nil {
			fmt.Println(err)
			break
		}
		if !v.Exists {
			fmt.Println("not there yet")
			node.Create(ctx, "hello", client.CreateOptions{})
			continue
		}
		fmt.Println(v.Value)
		break
	}
	// Output:
	// not there yet
	// hello
}
