package naming_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes/naming"
)

func Example() {
	t := standin.Example() // in a test, this is its *testing.T
	defer t.End()
	c := zktest.Start(t).Client(t)
	ctx := context.Background()

	names, err := naming.New(c, "/names", naming.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := names.BindEphemeral(ctx, "printers/2nd floor", []byte("10.0.0.7:631")); err != nil {
		fmt.Println(err)
		return
	}
	b, err := names.Resolve(ctx, "printers/2nd floor")
	fmt.Printf("%s is %s, %v\n", b.Name, b.Value, err)
	list, err := names.List(ctx, "printers")
	fmt.Println(list, err)
	_, err = names.Resolve(ctx, "printers/3rd floor")
	fmt.Println(errors.Is(err, naming.ErrUnbound))
	// Output:
	// printers/2nd floor is 10.0.0.7:631, <nil>
	// [{printers/2nd floor false}] <nil>
	// true
}
