package doublebarrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

// ready is the name of the node that says that the barrier is open.
const ready = "ready"

// participants returns the sorted names of the participants' nodes, and the Stat of
// the barrier's. There are none if that does not exist.
func participants(ctx context.Context, c *client.Client, path string) ([]string, client.Stat, error) {
	list, err := c.Children(ctx, path)
	stat := list.Stat
	if errors.Is(err, client.ErrNoNode) {
		return nil, stat, nil
	}
	if err != nil {
		return nil, stat, err
	}
	names := slices.DeleteFunc(list.Names, func(name string) bool { return name == ready })
	for _, name := range names {
		if !isID(name) {
			return nil, stat, fmt.Errorf("%w: %s has a child %q; delete it, or use another path", recipes.ErrLayout, path, name)
		}
	}
	slices.Sort(names)
	return names, stat, nil
}

// isID reports whether a name is a UUID: in the usual notation, which is ours and
// Curator's, or with the hyphens left out, as kazoo does.
func isID(name string) bool {
	const digits = 32
	hex := strings.ReplaceAll(name, "-", "")
	return len(hex) == digits && (len(name) == digits || strings.Count(name, "-") == 4) &&
		strings.Trim(hex, "0123456789abcdef") == ""
}
