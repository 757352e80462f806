package naming

import (
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// contextMark is the suffix of contexts' nodes. Escaped text does not contain it.
const contextMark = ":"

// dir returns the path of a context; "" is the root of all names.
func (n *Names) dir(context string) (string, error) {
	if context == "" {
		return n.path, nil
	}
	path := n.path
	for part := range strings.SplitSeq(context, "/") {
		if part == "" {
			return "", fmt.Errorf("naming: name %q has an empty part: %w", context, client.ErrBadArguments)
		}
		path += "/" + line.Escape(part) + contextMark
	}
	return path, nil
}

// node returns the path of a binding.
func (n *Names) node(name string) (string, error) {
	context, last := "", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		context, last = name[:i], name[i+1:]
		if context == "" {
			last = "" // "/x" has an empty part too
		}
	}
	dir, err := n.dir(context)
	if err != nil || last == "" {
		return "", fmt.Errorf("naming: name %q is empty, or has an empty part: %w", name, client.ErrBadArguments)
	}
	return dir + "/" + line.Escape(last), nil
}
