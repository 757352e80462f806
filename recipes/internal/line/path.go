package line

import (
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// CheckPath returns an error if path cannot be the path of a recipe's node: if it is invalid,
// or is "/", which has no parent and cannot be deleted. The error wraps
// client.ErrBadArguments.
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
func Join(dir, name string) string { return jute.Join(dir, name) }
