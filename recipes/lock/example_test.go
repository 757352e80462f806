package lock_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/lock"
)

// Of several callers one at a time adds up.
func Example() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()
	c := zktest.Start(t).Client(t)

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

// A writer keeps the right to read when it has written.
func ExampleRWMutex() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()
	c := zktest.Start(t).Client(t)

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
	ctx := t.Context()
	c := zktest.Start(t).Client(t)

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

// Of three licences two are in use, so there is one left.
func ExampleSemaphore() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()
	c := zktest.Start(t).Client(t)

	licences, err := lock.NewSemaphore(c, "/locks/licences", 3, hold.Options{})
	if err != nil {
		fmt.Println(err) // the path, the number, or an option
		return
	}
	lease, err := licences.Acquire(ctx, 2) // waits until two are free
	if err != nil {
		fmt.Println(err)
		return
	}
	_, two, _ := licences.TryAcquire(ctx, 2)
	another, one, _ := licences.TryAcquire(ctx, 1)
	fmt.Println("two more:", two, "one more:", one)
	fmt.Println(another.Release(ctx), lease.Release(ctx))
	// Output:
	// two more: false one more: true
	// <nil> <nil>
}
