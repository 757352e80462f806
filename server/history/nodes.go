package history

import (
	"iter"
	"slices"

	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// Nodes returns the nodes of a subtree of a former tree. It ends at once if there was no root.
func Nodes(tree *datatree.Tree, root string) iter.Seq2[treediff.Node, error] {
	return func(yield func(treediff.Node, error) bool) { walk(tree, root, "/", yield) }
}

func walk(tree *datatree.Tree, root, rel string, yield func(treediff.Node, error) bool) bool {
	path := treediff.Join(root, rel)
	data, node, ok := tree.GetData(path)
	if !ok {
		return true
	}
	n := treediff.Node{Path: rel, Data: data, ACL: node.ACL, Stat: node.Stat()}
	n.Stat.EphemeralOwner = jute.SessionID(node.Owner) // the Stat of a container or of a node with a TTL hides it
	if !yield(n, nil) {
		return false
	}
	names := slices.Sorted(tree.Children(path))
	for _, name := range names {
		if root == "/" && rel == "/" && name == "zookeeper" {
			continue // it belongs to the servers
		}
		if !walk(tree, root, treediff.Join(rel, "/"+name), yield) {
			return false
		}
	}
	return true
}
