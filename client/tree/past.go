package tree

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// FormerOptions say what Former reads.
type FormerOptions struct {
	At    client.Moment
	Below bool // all nodes below the path; without it the node and its children
	Data  bool // the nodes' data and ACLs, too
	// Begun, if it is set, is called before the first node comes, with a page that has the zxid, the time and the origin of the state.
	Begun func(client.PastPage)
}

// Former visits a node and those below it as they were at a moment, in the order of Frozen. There are none if there was no node.
//
// An error that concerns one node comes with an Entry that has its Path: ErrNoAuth. Any other error has no Path and is the last.
func Former(ctx context.Context, c *client.Client, path string, o FormerOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		begun := o.Begun == nil
		for page, err := range look(ctx, c, path, client.PastOptions{At: o.At, Below: o.Below, Data: o.Data}) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if page.From != "" && !begun {
				begun = true
				o.Begun(page)
			}
			for i := range page.Nodes {
				n := &page.Nodes[i]
				e := Entry{Path: below(path, n.Name), Stat: n.Stat, Data: n.Data, ACL: n.ACL, Depth: strings.Count(n.Name, "/")}
				var err error
				if n.Err != nil {
					err = &client.Error{Op: jute.OpPast, Path: e.Path, Err: n.Err}
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

func below(path, name string) string {
	if name == "" {
		return path
	}
	return strings.TrimSuffix(path, "/") + name
}

// HistoryOptions say what History reads.
type HistoryOptions struct {
	Below  bool        // of all nodes below the path, too
	Data   bool        // with the data before and after
	Before client.Zxid // the changes before this one; 0 for all
	Limit  int         // the largest number of changes, the newest; 0 leaves it to the server
	// End, if it is set, is called at the end: all changes after a zxid have come, and there may be older ones.
	End func(after client.Zxid, more bool)
}

// History visits changes of a node, the oldest first. The Name of each is its whole path.
func History(ctx context.Context, c *client.Client, path string, o HistoryOptions) iter.Seq2[client.PastChange, error] {
	return func(yield func(client.PastChange, error) bool) {
		var last client.PastPage
		for page, err := range look(ctx, c, path, client.PastOptions{Changes: true, Below: o.Below, Data: o.Data, At: client.Moment{Zxid: o.Before}, Limit: o.Limit}) {
			if err != nil {
				yield(client.PastChange{}, err)
				return
			}
			for _, x := range page.Changes {
				if x.Name = below(path, x.Name); !yield(x, nil) {
					return
				}
			}
			last = page
		}
		if o.End != nil {
			o.End(last.Zxid, last.More)
		}
	}
}

// look yields the pages of a look at the past. If the caller takes no more, or ctx ends, so does the look.
func look(ctx context.Context, c *client.Client, path string, o client.PastOptions) iter.Seq2[client.PastPage, error] {
	return func(yield func(client.PastPage, error) bool) {
		for c := c; ; c = c.WithRetry(nil) {
			page, err := c.Past(ctx, path, o)
			if e, ok := errors.AsType[*client.Error](page.Err); ok && err == nil {
				e.Path, err = path, e
			}
			if err != nil || !yield(page, nil) {
				if look := max(o.Look, page.Look); look != 0 {
					c.Async().Past(path, client.PastOptions{Look: look, End: true})
				}
				if err != nil {
					yield(client.PastPage{}, err)
				}
				return
			}
			if o.Look = page.Look; o.Look == 0 {
				return
			}
		}
	}
}
