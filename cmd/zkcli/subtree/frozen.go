package subtree

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
)

// LostError is the end of a stream of Frozen whose server no longer has the state: the connection was lost, or very
// many nodes have changed, or nothing was read for a minute. Or it has other data where that is too long for a page.
type LostError struct {
	Zxid client.Zxid // of the state
	Err  error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the state of zxid %v is lost: %v", e.Zxid, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// Frozen returns the nodes of the subtree at root, with data and ACLs, all of them as they were at one zxid, in tree
// order. /zookeeper is omitted as with ReadOptions.SkipSystem. begun is called with the zxid before the first node
// comes.
//
// Errors come as from Live. If the state is lost, the last one is a *LostError. Servers that don't offer
// such reads answer client.ErrUnimplemented.
func Frozen(ctx context.Context, c *client.Client, root string, begun func(client.Zxid)) iter.Seq2[Node, error] {
	skip := skipsSystem(c, root)
	return func(yield func(Node, error) bool) {
		var zxid client.Zxid
		o := tree.FrozenOptions{ACLs: true, Begun: func(z client.Zxid) {
			zxid = z
			begun(z)
		}}
		for e, err := range tree.Frozen(ctx, c.Steady(), root, o) {
			if skip && inSystem(e.Path) {
				continue
			}
			if errors.Is(err, client.ErrMarshalling) && e.Path != "" {
				if e.Data, err = longData(ctx, c, &e); err != nil && ctx.Err() == nil {
					err = &LostError{zxid, err}
				}
			}
			if client.IsTransient(err) && zxid != 0 && e.Path == "" {
				err = &LostError{zxid, err}
			}
			if !yield(Node{Path: relative(e.Path, root), Data: e.Data, ACL: e.ACL, Stat: e.Stat}, err) || e.Path == "" {
				return
			}
		}
	}
}

// longData reads data that is too long for a page. It must be the one that e had.
func longData(ctx context.Context, c *client.Client, e *tree.Entry) ([]byte, error) {
	n, err := c.Steady().Get(ctx, e.Path)
	if err == nil && (n.Stat.Czxid != e.Stat.Czxid || n.Stat.Mzxid != e.Stat.Mzxid) {
		err = errors.New("it has changed since")
	}
	if err != nil {
		err = fmt.Errorf("data of %s, which is too long for a page: %w", e.Path, err)
	}
	return n.Data, err
}
