package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Contender is somebody who holds a lock or waits for it.
type Contender struct {
	// Path of the node that stands for it, which is its own for ever.
	Path string
	// Holds is whether it is the first in the line, and so has the lock.
	Holds bool
	// Data say who it is.
	Data []byte
	// Session that the node belongs to; 0 if it is not ephemeral and stays until
	// somebody deletes it.
	Session client.SessionID
	// Since when it is there, by the clock of the servers.
	Since time.Time
	// Token is what Held.Token is to the contender itself.
	Token client.Zxid
}

// Contenders returns who holds the lock and who waits for it, in their order. There is
// nobody if the lock's node does not exist. Those that go meanwhile are left out.
func (m *Mutex) Contenders(ctx context.Context) ([]Contender, error) {
	if _, err := m.line.List(ctx); err != nil {
		return nil, m.failed(ctx, err)
	}
	list, err := Contenders(ctx, m.line.Client, m.Path())
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	return list, err
}

// Break takes the lock, or the place in the line, from a contender that Contenders has
// returned, by deleting its node. It returns whom it was taken from, as that was at the end,
// for the record: see the function Break.
func (m *Mutex) Break(ctx context.Context, who Contender) (Contender, error) {
	return Break(ctx, m.line.Client, who)
}

// Contenders is Mutex.Contenders for tools: it takes any child of path as a contender whose
// name ends in a number, as it is in the locks and the elections of all libraries, and
// passes over other ones. It returns client.ErrNoNode if there is no such path. Of locks
// that several may hold at a time it knows the order only.
func Contenders(ctx context.Context, c *client.Client, path string) ([]Contender, error) {
	any := anybodys()
	var entries []line.Entry
	found := make(map[string]Contender)
	for node, err := range tree.Walk(ctx, c, path, tree.WalkOptions{Depth: 1, Data: true}) {
		if err != nil {
			return nil, fmt.Errorf("contenders of %s: %w", path, err)
		}
		name := line.Base(node.Path)
		if entry, ok := any.Parse(name); ok && node.Depth == 1 {
			entries = append(entries, entry)
			found[name] = contender(node)
		}
	}
	slices.SortFunc(entries, line.Compare)
	list := make([]Contender, len(entries))
	for i, entry := range entries {
		list[i] = found[entry.Name]
		list[i].Holds = i == 0
	}
	return list, nil
}

// anybodys takes any name that ends in a number for a place.
func anybodys() *line.Layout {
	// Labels end in a hyphen or underscore: a hyphen behind that is the sign of a number.
	return &line.Layout{Kind: func(stem string) (int, bool) {
		return 0, !strings.HasSuffix(stem, "--") && !strings.HasSuffix(stem, "_-")
	}}
}

func contender(n tree.Entry) Contender {
	return Contender{
		Path: n.Path, Data: n.Data, Session: jute.Owner(n.Stat.EphemeralOwner).Session(),
		Since: time.UnixMilli(n.Stat.Ctime), Token: n.Stat.Czxid,
	}
}

// Break deletes the node of a contender, and no other: client.ErrNoNode if it has gone by
// itself, and client.ErrBadVersion if there is another one in its place. The contender's
// session lives on. If it holds the lock it is told that it is lost, provided that it
// watches its node as Held does. If it waits it watches the one before it alone: whose data
// are written anew, as they are, so that it looks again. Where the ACL forbids that it
// notices when that one has gone.
//
// It returns the contender as it was when its node was deleted.
func Break(ctx context.Context, c *client.Client, who Contender) (Contender, error) {
	c = c.Steady()
	before, err := ahead(ctx, c, who.Path)
	if err != nil {
		return Contender{}, fmt.Errorf("break %s: %w", who.Path, err)
	}
	node, err := c.Get(ctx, who.Path)
	if err == nil && node.Stat.Czxid != who.Token {
		err = fmt.Errorf("another one is there by now: %w", client.ErrBadVersion)
	}
	if err == nil {
		// The servers can't compare a czxid: the look comes right before the delete, of the
		// version that was looked at.
		err = settle.Delete(ctx, c, who.Path, node.Stat.Version, settle.DeleteOptions{})
	}
	if err != nil {
		return Contender{}, fmt.Errorf("break %s: %w", who.Path, err)
	}
	if before != "" {
		line.Nudge(ctx, c, before)
	}
	broken := contender(tree.Entry{Path: who.Path, Data: node.Data, Stat: node.Stat})
	broken.Holds = who.Holds
	return broken, nil
}

// ahead returns the path of the place before that one, or "" if there is none.
func ahead(ctx context.Context, c *client.Client, place string) (string, error) {
	dir := line.Parent(place)
	list, err := c.Children(ctx, dir)
	if err != nil {
		return "", err
	}
	any := anybodys()
	own, ok := any.Parse(line.Base(place))
	var last *line.Entry
	for _, name := range list.Names {
		if e, known := any.Parse(name); ok && known && e.Before(own) && (last == nil || last.Before(e)) {
			last = &e
		}
	}
	if last == nil {
		return "", nil
	}
	return line.Join(dir, last.Name), nil
}
