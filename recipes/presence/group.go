package presence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Group is the group of programs at a path.
type Group struct {
	c    *client.Client
	path string
	o    Options
}

// Member is a member of a Group.
type Member struct {
	ID string
	// Data is the member's data. It is nil in kazoo's layouts.
	Data []byte
	// Name is the name of the member's node.
	Name string
	// Stat is that of the member's node: since when it has been there (Ctime, Czxid), its
	// session (EphemeralOwner), and when its data was last changed (Mtime).
	Stat client.Stat
}

// NewGroup returns the group at path. It sends no request.
func NewGroup(c *client.Client, path string, o Options) (*Group, error) {
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

// Join makes the program a member with that ID, and waits until others see it. Data must be
// nil in kazoo's layouts. If ctx ends before, the program is no member, or will be none
// soon. The error wraps client.ErrNodeExists if the ID is taken.
func (g *Group) Join(ctx context.Context, id string, data []byte) (*Membership, error) {
	if err := checkName("ID", id); err != nil {
		return nil, fmt.Errorf("join %s: %w", g.path, err)
	}
	if g.o.Layout != Named && data != nil {
		return nil, fmt.Errorf("join %s as %s: members have no data in the layout %v", g.path, id, g.o.Layout)
	}
	name, own := g.o.Layout.node(id, data)
	node, err := hold(ctx, g.c, line.Join(g.path, name), own, g.o)
	if err != nil {
		return nil, fmt.Errorf("join %s as %s: %w", g.path, id, err)
	}
	return &Membership{held: held{node: node, what: g.path + " as " + id}, layout: g.o.Layout, id: id}, nil
}

// Membership is the presence of a member in a group. It has the methods State, Done, Err and
// Release.
type Membership struct {
	held
	layout Layout
	id     string
}

// ID returns the member's ID.
func (m *Membership) ID() string { return m.id }

// SetData sets the member's data, and waits until others can see it: see Node.SetData. In
// kazoo's layouts members have no data.
func (m *Membership) SetData(ctx context.Context, data []byte) error {
	if err := m.checkData(); err != nil {
		return err
	}
	return m.node.SetData(ctx, data)
}

// Post is SetData that does not wait.
func (m *Membership) Post(data []byte) error {
	if err := m.checkData(); err != nil {
		return err
	}
	return m.node.Post(data)
}

func (m *Membership) checkData() error {
	if m.layout != Named {
		return fmt.Errorf("set data of %s: members have no data in the layout %v", m.what, m.layout)
	}
	return nil
}

// Members returns the members, sorted by ID. It takes one read, and in the layouts Named and
// Party another one for each member.
func (g *Group) Members(ctx context.Context) ([]Member, error) {
	names, err := g.names(ctx)
	if err != nil {
		return nil, err
	}
	var members []Member
	if g.o.Layout == ShallowParty {
		for _, name := range names {
			id, _ := g.o.Layout.id(name, nil)
			members = append(members, Member{ID: id, Name: name})
		}
	} else {
		members, err = readAll(ctx, g.c, g.path, names, func(name string, node client.Node) (Member, error) {
			return g.member(name, node.Data, node.Stat)
		})
	}
	slices.SortFunc(members, byID)
	return members, err
}

// readAll reads children at the same time, and decodes those that exist, in their order.
func readAll[T any](ctx context.Context, c *client.Client, dir string, names []string, decode func(name string, node client.Node) (T, error)) ([]T, error) {
	reads := make([]*client.Future[client.Node], len(names))
	for i, name := range names {
		reads[i] = c.Async().Get(line.Join(dir, name))
	}
	var all []T
	for i, name := range names {
		node, err := reads[i].Wait(ctx)
		if client.IsRetryable(err) { // the connection broke
			node, err = c.Steady().Get(ctx, line.Join(dir, name))
		}
		if errors.Is(err, client.ErrNoNode) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		v, err := decode(name, node)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// Size returns the number of members. It takes one read.
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

// member returns the member with that node.
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
	return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Name, b.Name))
}
