package backup

import (
	"context"
	"fmt"
	"iter"
	"os"
	"slices"

	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
)

// StateAt returns the state at a moment in an archive, or that of one backup in a file.
func StateAt(ctx context.Context, from string, getenv func(string) string, at history.Moment) (*archive.Found, error) {
	s, err := Storage(ctx, from, getenv)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(from)
	_, local := s.(archive.Dir)
	if local && err != nil {
		return nil, err
	}
	if !local || info.IsDir() {
		a, err := archive.Read(ctx, s)
		if err != nil {
			return nil, err
		}
		return a.StateAt(ctx, at)
	}
	if at != (history.Moment{}) {
		return nil, fmt.Errorf("%s has one state: name a directory of backup follow to go to a moment", from)
	}
	a, err := archive.One(ctx, from)
	if err != nil {
		return nil, err
	}
	return a.StateAt(ctx, at)
}

// Nodes returns the nodes of a subtree of a former tree, as subtree.Live does for the present one. It
// ends at once if there was no root.
func Nodes(tree *datatree.Tree, root string) iter.Seq2[subtree.Node, error] {
	return func(yield func(subtree.Node, error) bool) { walk(tree, root, "/", yield) }
}

func walk(tree *datatree.Tree, root, rel string, yield func(subtree.Node, error) bool) bool {
	path := subtree.Join(root, rel)
	data, node, ok := tree.GetData(path)
	if !ok {
		return true
	}
	n := subtree.Node{Path: rel, Data: data, ACL: node.ACL, Stat: node.Stat()}
	n.Stat.EphemeralOwner = jute.SessionID(node.Owner) // the Stat of a container or of a node with a TTL hides it
	if !yield(n, nil) {
		return false
	}
	names := slices.Sorted(tree.Children(path))
	for _, name := range names {
		if root == "/" && rel == "/" && name == "zookeeper" {
			continue // it belongs to the servers
		}
		if !walk(tree, root, subtree.Join(rel, "/"+name), yield) {
			return false
		}
	}
	return true
}
