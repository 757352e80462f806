package hold

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
)

// ACL returns an ACL by which only the holder of a lock or of an election may change a znode,
// create children of it and delete them, and anybody may read it. zkd's servers compare the
// session of each write with the first contender at the moment of the write, so that a holder
// that was suspended, and has lost what it held, changes nothing when it continues. It needs
// no Guard and no Token, and protects from writers in all languages.
//
// path is relative to c, and that of a Mutex, of an RWMutex (for its writers), or of an election. A semaphore
// and readers have several holders at a time, and can't be named. Nobody but the super user
// may change the ACL later, unless an entry that allows it is appended.
//
// Apache's server has no such ACLs, and answers client.ErrInvalidACL: Protect says why.
func ACL(c *client.Client, path string) []client.ACL {
	change := client.PermCreate | client.PermWrite | client.PermDelete
	return append(client.ReadACL(), client.ACL{Perms: change, ID: client.ID{Scheme: "holder", ID: c.Root() + path}})
}

// Protect gives the znode at path the ACL of the lock or election at lock. Both are relative to c. On a
// server that has no such ACLs, as Apache's, it fails with an error that says so, and wraps client.ErrInvalidACL.
func Protect(ctx context.Context, c *client.Client, lock, path string) error {
	_, err := c.SetACL(ctx, path, ACL(c, lock), client.AnyVersion)
	if errors.Is(err, client.ErrInvalidACL) {
		return fmt.Errorf("hold: this server does not know ACLs for the holder of a lock (scheme holder), as zkd's servers do: %w", err)
	}
	return err
}
