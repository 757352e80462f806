package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Contender is a client that holds something or waits for it.
type Contender struct {
	// Path of its node. No other contender ever has the same one, except with layouts of
	// other libraries that use the number alone.
	Path string
	// Holds reports whether it holds, as far as the server that was asked knows.
	Holds bool
	// Data of its node, which tell who it is. They are nil while it is asked to release:
	// see Asked.
	Data []byte
	// Session that its node belongs to; 0 if the node is not ephemeral and remains until
	// somebody deletes it.
	Session client.SessionID
	// Since is when its node was created, by the clock of the servers.
	Since time.Time
	// Token is the zxid at which its node was created: its Held.Token, except where a
	// lock has priorities.
	Token client.Zxid

	// Shared reports whether others may hold at the same time: it is a reader, or a lease.
	Shared bool
	// Priority, if the lock has priorities.
	Priority int32
	// Asked reports whether somebody has asked it to release, and it has not answered.
	Asked bool
}

// Contenders returns those who hold a lock of any library, or lead an election, and those
// who wait, in their order. It takes each child of path whose name ends in a number for a
// contender and ignores the others. It returns client.ErrNoNode if the path does not exist.
// It knows the order only: of the contenders of read-write locks and semaphores, more may
// hold than the first one, which is the only one with Holds.
func Contenders(ctx context.Context, c *client.Client, path string) ([]Contender, error) {
	entries, err := anyEntries(ctx, c, path)
	var list []Contender
	if err == nil {
		list, err = Describe(ctx, c, path, entries)
	}
	if err != nil {
		return nil, fmt.Errorf("contenders of %s: %w", path, err)
	}
	if len(list) > 0 {
		list[0].Holds = true
	}
	return list, nil
}

// anyEntries returns the children of path that are contenders of any library, in order.
func anyEntries(ctx context.Context, c *client.Client, path string) ([]line.Entry, error) {
	list, err := c.Steady().Children(ctx, path)
	if err != nil {
		return nil, err
	}
	var entries []line.Entry
	for _, name := range list.Names {
		if e, ok := anyLayout.Parse(name); ok {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, line.Compare)
	return entries, nil
}

// anyLayout accepts every name that ends in a number.
var anyLayout = &line.Layout{Kind: func(stem string) (int, bool) {
	// Labels end in a hyphen or underscore: another hyphen after that is the sign of a number.
	return 0, !strings.HasSuffix(stem, "--") && !strings.HasSuffix(stem, "_-")
}}

// Describe returns the contenders with those names below dir. It reads their nodes, and
// omits those that have disappeared. It is for recipes.
func Describe(ctx context.Context, c *client.Client, dir string, entries []line.Entry) ([]Contender, error) {
	c = c.Steady()
	nodes := make([]*client.Future[client.Node], len(entries))
	for i, e := range entries {
		nodes[i] = c.Async().Get(line.Join(dir, e.Name))
	}
	list := make([]Contender, 0, len(entries))
	for i, e := range entries {
		path := line.Join(dir, e.Name)
		node, err := nodes[i].Wait(ctx)
		if client.IsRetryable(err) {
			node, err = c.Get(ctx, path)
		}
		if errors.Is(err, client.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, Contender{Path: path}.With(node))
	}
	return list, nil
}

// With returns the contender with what its node says. It is for recipes.
func (who Contender) With(node client.Node) Contender {
	who.Data = node.Data
	who.Session = jute.Owner(node.Stat.EphemeralOwner).Session()
	who.Since = time.UnixMilli(node.Stat.Ctime)
	who.Token = node.Stat.Czxid
	return who
}

// Break takes what a contender holds, or its place in the line, by deleting its node. It
// returns client.ErrNoNode if the node has disappeared by itself, and client.ErrBadVersion
// if another one has taken its place. The contender's session continues. A holder learns
// that it has lost, provided that it watches its node as a Held does. A contender that
// waits watches only the one before it, so Break writes that one's data, unchanged, to wake
// it. If the ACL forbids that, it learns of it when that one disappears.
//
// Break returns the contender as it was when its node was deleted.
func Break(ctx context.Context, c *client.Client, who Contender) (Contender, error) {
	c = c.Steady()
	before, err := placeBefore(ctx, c, who.Path)
	if err != nil {
		return Contender{}, fmt.Errorf("break %s: %w", who.Path, err)
	}
	broken, err := Remove(ctx, c, who)
	if err == nil && before != "" {
		line.Nudge(ctx, c, before)
	}
	return broken, err
}

// Remove is Break that does not wake the contender, for recipes whose contenders watch
// something else.
func Remove(ctx context.Context, c *client.Client, who Contender) (Contender, error) {
	node, err := remove(ctx, c.Steady(), who)
	if err != nil {
		return Contender{}, fmt.Errorf("break %s: %w", who.Path, line.Why(ctx, err))
	}
	return who.With(node), nil
}

// remove deletes a contender's node, which it returns, and no other.
func remove(ctx context.Context, c *client.Client, who Contender) (client.Node, error) {
	for {
		node, err := c.Get(ctx, who.Path)
		if err == nil && node.Stat.Czxid != who.Token {
			err = fmt.Errorf("another one is there by now: %w", client.ErrBadVersion)
		}
		if err != nil {
			return client.Node{}, err
		}
		// The servers cannot compare a czxid: read immediately before the delete, and
		// delete the version that was read. Another Break may have written the data.
		err = settle.Delete(ctx, c, who.Path, node.Stat.Version, settle.DeleteOptions{})
		if !errors.Is(err, client.ErrBadVersion) {
			return node, err
		}
	}
}

// placeBefore returns the path of the contender before that one, or "" if it is the first.
func placeBefore(ctx context.Context, c *client.Client, path string) (string, error) {
	dir := line.Parent(path)
	entries, err := anyEntries(ctx, c, dir)
	i := slices.IndexFunc(entries, func(e line.Entry) bool { return e.Name == line.Base(path) })
	if err != nil || i <= 0 {
		return "", err
	}
	return line.Join(dir, entries[i-1].Name), nil
}
