package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/keepalive"
)

// Options are what a Group can be told. The zero value is good for most.
type Options struct {
	// Layout says what members are called on the tree. All of a group have the same.
	Layout Layout
	// ACL is that of new nodes. Nil is client.OpenACL. It must let the members read.
	ACL []client.ACL
	// Patient makes Join wait while somebody else is in the group under the ID, such as
	// this program before it was restarted, whose session has yet to end.
	Patient bool
}

// Group is who is at one path.
type Group struct {
	c    *client.Client
	path string
	o    Options
}

// Member is one of a group.
type Member struct {
	ID string
	// Data is the member's own. Nil in kazoo's layouts.
	Data []byte
	// Name is that of the member's node.
	Name string
	// Stat is its node's: since when it has been there (Ctime, Czxid), of which session
	// (EphemeralOwner), when its data were last changed (Mtime).
	Stat client.Stat
}

// New returns the group at path. It doesn't talk to the servers.
func New(c *client.Client, path string, o Options) (*Group, error) {
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("group: path %q: %w", path, err)
	}
	if o.Layout < Named || o.Layout > ShallowParty {
		return nil, fmt.Errorf("group %s: Options.Layout is %d: it is Named, Party or ShallowParty", path, o.Layout)
	}
	return &Group{c: c, path: path, o: o}, nil
}

// Path returns the group's path.
func (g *Group) Path() string { return g.path }

// Join makes the program a member under that ID, and waits until it is. The data are
// for others to see; in kazoo's layouts there are none, they must be nil. If ctx ends
// before, the program is no member, or is none soon. client.ErrNodeExists says that
// somebody else is in the group under the ID.
func (g *Group) Join(ctx context.Context, id string, data []byte) (*Membership, error) {
	if id == "" || strings.Contains(id, "/") {
		return nil, fmt.Errorf("join %s: ID is %q: it is a name without /", g.path, id)
	}
	if g.o.Layout != Named && data != nil {
		return nil, fmt.Errorf("join %s as %s: members have no data in the layout %v", g.path, id, g.o.Layout)
	}
	name, own := g.o.Layout.node(id, data)
	node, err := keepalive.New(g.c, line.Join(g.path, name), keepalive.Options{ACL: g.o.ACL, Patient: g.o.Patient})
	if err != nil {
		return nil, fmt.Errorf("join %s as %s: %w", g.path, id, err)
	}
	if err = node.Start(own); err == nil {
		err = node.WaitThere(ctx)
	}
	if err != nil {
		_ = node.Close(ctx) // what is left goes in the background
		return nil, fmt.Errorf("join %s as %s: %w", g.path, id, err)
	}
	return &Membership{group: g, id: id, node: node}, nil
}

// Members returns who is in the group, sorted by ID. It takes one read, and in the
// layouts Named and Party another one for each member.
func (g *Group) Members(ctx context.Context) ([]Member, error) {
	names, err := g.names(ctx)
	if err != nil {
		return nil, err
	}
	reads := make([]*client.Future[client.Node], len(names))
	for i, name := range names {
		if g.o.Layout != ShallowParty {
			reads[i] = g.c.Async().Get(line.Join(g.path, name))
		}
	}
	var members []Member
	for i, name := range names {
		m, there, err := g.read(ctx, name, reads[i])
		if err != nil {
			return nil, err
		}
		if there {
			members = append(members, m)
		}
	}
	slices.SortFunc(members, byID)
	return members, nil
}

// Size returns how many are in the group. It takes one read.
func (g *Group) Size(ctx context.Context) (int, error) {
	names, err := g.names(ctx)
	return len(names), err
}

// names returns the names of the members' nodes.
func (g *Group) names(ctx context.Context) ([]string, error) {
	list, err := g.c.Steady().Children(ctx, g.path)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var members []string
	for _, name := range list.Names {
		_, ok := g.o.Layout.id(name, nil)
		switch {
		case ok:
			members = append(members, name)
		case g.o.Layout != Party:
			return nil, g.foreign(name)
		}
	}
	return members, nil
}

// read waits for the read of a member, if there is one. It is repeated if the
// connection broke.
func (g *Group) read(ctx context.Context, name string, read *client.Future[client.Node]) (Member, bool, error) {
	if read == nil {
		id, _ := g.o.Layout.id(name, nil)
		return Member{ID: id, Name: name}, true, nil
	}
	node, err := read.Wait(ctx)
	if client.IsRetryable(err) {
		node, err = g.c.Steady().Get(ctx, line.Join(g.path, name))
	}
	if errors.Is(err, client.ErrNoNode) {
		return Member{}, false, nil // it has left between
	}
	if err != nil {
		return Member{}, false, err
	}
	m, err := g.member(name, node.Data, node.Stat)
	return m, err == nil, err
}

// member returns the member that a node stands for.
func (g *Group) member(name string, data []byte, stat client.Stat) (Member, error) {
	id, ok := g.o.Layout.id(name, data)
	if !ok || stat.EphemeralOwner == 0 {
		return Member{}, g.foreign(name)
	}
	m := Member{ID: id, Name: name, Stat: stat}
	if g.o.Layout == Named {
		m.Data = data
	}
	return m, nil
}

func (g *Group) foreign(name string) error {
	return fmt.Errorf("%w: group %s has a child %q that is no member; delete it, or use another path", recipes.ErrLayout, g.path, name)
}

func byID(a, b Member) int {
	if c := strings.Compare(a.ID, b.ID); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}
