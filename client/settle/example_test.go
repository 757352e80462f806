package settle_test

import (
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
)

// The node of a lock: made once, whatever happens to the connection.
func ExampleCreate() {
	ctx, c, stop := exampleClient()
	defer stop()

	settle.Ensure(ctx, c, "/lock", client.CreateOptions{})
	made, err := settle.Create(ctx, c, "/lock/n-", nil, settle.CreateOptions{Mode: client.EphemeralSequential, By: settle.ByGUID})
	plain, _, _ := settle.ProtectedName(made.Path[len("/lock/"):])
	fmt.Println(plain, err)
	fmt.Println(settle.Delete(ctx, c, made.Path, client.AnyVersion, settle.DeleteOptions{Insist: true}))
	// Output:
	// n-0000000000 <nil>
	// <nil>
}
