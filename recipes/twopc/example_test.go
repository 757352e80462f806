package twopc_test

import (
	"fmt"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/twopc"
)

// Two sites do a transfer, both or neither.
func Example() {
	t := standin.Example()
	defer t.End()
	ctx := t.Context()
	c := zktest.Start(t).Client(t)
	tx, err := twopc.New(c, "/transfer/42", twopc.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	plan := twopc.Plan{Sites: []string{"bank", "shop"}, Data: []byte("5 from bank to shop")}
	fmt.Println("begin:", tx.Begin(ctx, plan))

	for _, name := range plan.Sites { // usually each in another process
		site, err := tx.Join(ctx, name)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s can do %q: %v\n", name, site.Data(), site.Vote(ctx, twopc.Commit))
	}
	d, err := tx.Decide(ctx) // the coordinator; sites call Await
	fmt.Println(d.Outcome, err)
	fmt.Println("end:", tx.End(ctx))
	// Output:
	// begin: <nil>
	// bank can do "5 from bank to shop": <nil>
	// shop can do "5 from bank to shop": <nil>
	// commit <nil>
	// end: <nil>
}
