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

// A writer keeps the right to read when it has written.
func ExampleRWMutex() {
	t := standin.Example()
	defer t.End()
	ctx := context.Background()
	c, _ := client.Connect(ctx, zktest.Start(t).ConnectString(), client.Options{Logger: client.NoLog})
	defer c.Close(ctx)

	l, err := lock.NewRWMutex(c, "/locks/catalog", lock.RWOptions{})
	if err != nil {
		fmt.Println(err) // the path, or an option
		return
	}
	write, err := l.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	read, _ := l.RLock(write.Context())
	fmt.Println(write.Release(ctx))
	another, ok, _ := l.TryRLock(ctx)
	fmt.Println("a reader comes in beside:", ok)
	_, ok, _ = l.TryLock(ctx)
	fmt.Println("a writer does:", ok)
	fmt.Println(another.Release(ctx), read.Release(ctx))
	// Output:
	// <nil>
	// a reader comes in beside: true
	// a writer does: false
	// <nil> <nil>
}

// The holder is asked to give the lock up, and does so when it has finished.
func ExampleRWMutex_Revoke() {
	t := standin.Example()
	defer t.End()
	ctx := context.Background()
	c, _ := client.Connect(ctx, zktest.Start(t).ConnectString(), client.Options{Logger: client.NoLog})
	defer c.Close(ctx)

	l, _ := lock.NewRWMutex(c, "/locks/catalog", lock.RWOptions{OnRevoke: func(*hold.Held, lock.Kind) bool {
		fmt.Println("finishing")
		return true
	}})
	held, _ := l.Lock(ctx)
	who, _ := l.Contenders(ctx)
	outcome, err := l.Revoke(ctx, who[0], lock.NoForce)
	fmt.Println(outcome, err, held.Err() != nil)
	// Output:
	// finishing
	// released <nil> true
}
