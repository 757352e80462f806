package value_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/value"
)

func Example() {
	t := standin.Example() // in a test, this is its *testing.T
	defer t.End()
	c := zktest.Start(t).Client(t)
	ctx := context.Background()

	type limits struct{ Rate, Burst int }
	shared, err := value.New(c, "/app/limits", value.Options[limits]{Seed: limits{Rate: 100, Burst: 10}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = shared.Update(ctx, func(l limits) (limits, error) {
		l.Rate *= 2 // of the newest value
		return l, nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now, err := shared.Get(ctx)
	fmt.Printf("%+v, version %d, %v\n", now.Value, now.Stat.Version, err)

	_, err = shared.TrySet(ctx, typed.Value[limits]{}, limits{}) // as if there were none yet
	fmt.Println(value.Conflict(err))
	// Output:
	// {Rate:200 Burst:10}, version 1, <nil>
	// true
}
