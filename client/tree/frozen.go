package tree

import (
	"context"
	"iter"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// FrozenOptions say what Frozen reads.
type FrozenOptions struct {
	Data bool // the nodes' data, too
	ACLs bool // their data and ACLs, too
	// Begun, if it is set, is called with the zxid of the state before the first node comes.
	Begun func(client.Zxid)
}

// Frozen visits a node and all nodes below it as they were at one zxid: parents before their children,
// and these in the order of their names. What others change meanwhile does not show.
//
// The first page is repeated as the policy of c says, if it has one (WithRetry).
//
// An error that concerns one node comes with an Entry that has its Path: ErrNoAuth, then the nodes below
// are left out, or ErrMarshalling if its data is very long; Get returns that. Any other error has
// no Path and is the last, such as ErrConnectionLoss: the state is lost with the connection, and only a
// new walk helps. Servers that do not offer it, such as Apache's, answer ErrUnimplemented.
func Frozen(ctx context.Context, c *client.Client, path string, o FrozenOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		next := client.SubtreePageOptions{Data: o.Data, ACLs: o.ACLs}
		for c, begun := c, false; ; c, begun = c.WithRetry(nil), true {
			page, err := c.SubtreePage(ctx, path, next)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !begun && o.Begun != nil {
				o.Begun(page.Zxid)
			}
			for i := range page.Nodes {
				n := &page.Nodes[i]
				e := Entry{Path: path, Stat: n.Stat, Data: n.Data, ACL: n.ACL, Depth: strings.Count(n.Name, "/")}
				if n.Name != "" {
					e.Path = strings.TrimSuffix(path, "/") + n.Name
				}
				var err error
				if n.Err != nil {
					err = &client.Error{Op: jute.OpSubtreePage, Path: e.Path, Err: n.Err}
				}
				if !yield(e, err) {
					if page.View != 0 {
						c.Async().SubtreePage(path, client.SubtreePageOptions{View: page.View, End: true})
					}
					return
				}
			}
			if next.View = page.View; next.View == 0 {
				return
			}
		}
	}
}
