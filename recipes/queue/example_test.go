package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/queue"
)

func Example() {
	t := standin.Example()
	defer t.End()
	ctx, c := exampleClient(t)

	q, err := queue.New(c, "/tasks", queue.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close(ctx)
	for _, task := range []string{"wash", "rinse", "dry"} {
		if err := q.Offer(ctx, []byte(task)); err != nil {
			fmt.Println(err)
		}
	}
	for range 3 {
		task, err := q.Take(ctx)
		fmt.Println(string(task), err)
	}
	// Output:
	// wash <nil>
	// rinse <nil>
	// dry <nil>
}

// A worker has an item for itself until it says that it is done.
func ExampleLeased() {
	t := standin.Example()
	defer t.End()
	ctx, c := exampleClient(t)

	q, err := queue.NewLeased(c, "/tasks", queue.Options{MaxAttempts: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close(ctx)
	if err := q.Offer(ctx, []byte("wash")); err != nil {
		fmt.Println(err)
	}
	for range 2 {
		l, err := q.Take(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		if l.Attempt() == 1 {
			fmt.Println(string(l.Data()), "failed:", l.Release(ctx))
			continue
		}
		fmt.Println(string(l.Data()), "done:", l.Ack(ctx))
	}
	// Output:
	// wash failed: <nil>
	// wash done: <nil>
}

// A producer that can be killed at any time, and offers its item once.
func ExampleTwoPhase() {
	t := standin.Example()
	defer t.End()
	ctx, c := exampleClient(t)

	q, err := queue.NewTwoPhase(c, "/app/orders", queue.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close(ctx)
	order := &queue.Draft{ID: "order-17", Data: []byte("two chairs")}
	if err := q.Prepare(ctx, order); err != nil {
		fmt.Println(err)
	}
	file, _ := json.Marshal(order) // written to disk here
	fmt.Println(q.Offer(ctx, order))

	restored := new(queue.Draft) // by the next process, which knows the file alone
	_ = json.Unmarshal(file, restored)
	for range 2 {
		data, ok, err := q.Poll(ctx)
		fmt.Println(string(data), ok, err)
		fmt.Println(q.Offer(ctx, restored))
	}
	// Output:
	// <nil>
	// two chairs true <nil>
	// <nil>
	//  false <nil>
	// <nil>
}

// exampleClient returns a client of a new server, or of the one that
// ZKD_TEST_SERVERS names.
func exampleClient(t *standin.T) (context.Context, *client.Client) {
	servers, _, _ := strings.Cut(os.Getenv(zktest.ServersVariable), ",")
	if servers == "" {
		servers = zktest.Start(t).ConnectString()
	}
	ctx := context.Background()
	c, err := client.Connect(ctx, servers, client.Options{Logger: client.NoLog})
	if err != nil {
		t.Fatalf("connect to %s: %v", servers, err)
	}
	root, err := c.Create(ctx, "/example-", nil, client.CreateOptions{Mode: client.PersistentSequential})
	if err != nil {
		t.Fatalf("create the example's root: %v", err)
	}
	t.Cleanup(func() {
		tree.Delete(ctx, c, root.Path, tree.DeleteOptions{})
		c.Close(ctx)
	})
	return ctx, c.Namespace(root.Path)
}
