package line

import (
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// CheckPath returns what is wrong with a path as that of a recipe's own node: it is
// not a valid one, or is "/", which has no parent and can't be deleted. The error
// wraps client.ErrBadArguments.
func CheckPath(path string) error {
	if path == "/" {
		return fmt.Errorf("%w: the path is /, but it has to be below that", client.ErrBadArguments)
	}
	return jute.ValidatePath(path)
}

// Parent returns the path of the node above.
func Parent(path string) string { return jute.Parent(path) }

// Base returns the last element of a path.
func Base(path string) string { return jute.Base(path) }

// Join returns the path of a child.
func Join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}
