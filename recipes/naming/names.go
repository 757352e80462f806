package naming

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// ErrUnbound means that a name is not bound.
var ErrUnbound = errors.New("name is not bound")

// ErrBound means that a name is already bound.
var ErrBound = errors.New("name is bound already")

// Options configure Names.
type Options struct {
	// ACL is the access list of new nodes; nil means client.OpenACL.
	ACL []client.ACL
}

// Names is a name service below a path. All methods may be called from any goroutine.
type Names struct {
	c    *client.Client
	path string
	o    Options
}

// New returns the names below path. It sends no request.
func New(c *client.Client, path string, o Options) (*Names, error) {
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("naming: %w", err)
	}
	return &Names{c: c.Steady(), path: path, o: o}, nil
}

// Binding is what a name is bound to.
type Binding struct {
	Name  string
	Value []byte
	// Version is for Rebind and Unbind. It starts at 0 each time the name is bound.
	Version int32
	// Owner is the session at whose end the binding ends, or 0 if it is persistent.
	Owner client.SessionID
}

// Bind binds a name to a value, until it is unbound. The error wraps ErrBound if the name
// is already bound. A nil value is an empty one.
func (n *Names) Bind(ctx context.Context, name string, value []byte) error {
	return n.bind(ctx, name, value, client.Persistent)
}

// BindEphemeral is Bind for a binding that ends with the client's session.
func (n *Names) BindEphemeral(ctx context.Context, name string, value []byte) error {
	return n.bind(ctx, name, value, client.Ephemeral)
}

func (n *Names) bind(ctx context.Context, name string, value []byte, mode client.CreateMode) error {
	path, err := n.node(name)
	if err != nil {
		return err
	}
	if value == nil {
		value = []byte{}
	}
	const rounds = 10 // the servers may delete a new container before it is used
	for round := 1; ; round++ {
		_, err := settle.Create(ctx, n.c, path, value, settle.CreateOptions{Mode: mode, ACL: n.o.ACL})
		if errors.Is(err, client.ErrNodeExists) && !client.IsAmbiguous(err) {
			return fmt.Errorf("bind %q: %w: %w", name, ErrBound, err)
		}
		if !errors.Is(err, client.ErrNoNode) || client.IsAmbiguous(err) || round == rounds {
			return wrap("bind", name, err)
		}
		if err := settle.Ensure(ctx, n.c, line.Parent(path), client.CreateOptions{Mode: client.Container, ACL: n.o.ACL}); err != nil {
			return wrap("bind", name, line.Settled(err, nil))
		}
	}
}

// Rebind replaces the value of a bound name and returns the new version. The binding must
// have the given version, unless that is client.AnyVersion. The error wraps ErrUnbound if
// the name is not bound, and client.ErrBadVersion if it has another version.
//
// If another client rebinds the name to the same value at the same moment, both may
// succeed.
func (n *Names) Rebind(ctx context.Context, name string, value []byte, version int32) (int32, error) {
	path, err := n.node(name)
	if err != nil {
		return 0, err
	}
	if value == nil {
		value = []byte{}
	}
	for {
		at := version
		if version == client.AnyVersion {
			found, err := n.c.Exists(ctx, path) // if it is missing only on this server, Set still finds it
			if err != nil {
				return 0, wrap("rebind", name, err)
			}
			at = found.Stat.Version
		}
		stat, err := settle.Set(ctx, n.c, path, value, at)
		conflict := errors.Is(err, client.ErrBadVersion) && !client.IsAmbiguous(err)
		if !conflict || version != client.AnyVersion {
			return stat.Version, wrap("rebind", name, err)
		}
	}
}

// Unbind ends a binding. The binding must have the given version, unless that is
// client.AnyVersion. The error wraps ErrUnbound if the name is not bound. The servers
// delete a context some time after its last name was unbound.
func (n *Names) Unbind(ctx context.Context, name string, version int32) error {
	path, err := n.node(name)
	if err != nil {
		return err
	}
	return wrap("unbind", name, settle.Delete(ctx, n.c, path, version, settle.DeleteOptions{}))
}

// Resolve returns what a name is bound to. The error wraps ErrUnbound if it is not.
func (n *Names) Resolve(ctx context.Context, name string) (Binding, error) {
	path, err := n.node(name)
	if err != nil {
		return Binding{}, err
	}
	node, err := n.c.Get(ctx, path)
	if err != nil {
		return Binding{}, wrap("resolve", name, err)
	}
	return binding(name, node.Data, node.Stat), nil
}

func binding(name string, data []byte, stat client.Stat) Binding {
	return Binding{Name: name, Value: data, Version: stat.Version, Owner: stat.EphemeralOwner}
}

// wrap adds the verb and the name to an error, and ErrUnbound if there is no node.
func wrap(verb, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrNoNode) && !client.IsAmbiguous(err):
		return fmt.Errorf("%s %q: %w: %w", verb, name, ErrUnbound, err)
	}
	return fmt.Errorf("%s %q: %w", verb, name, err)
}

// Follow returns the binding of a name, and then the newest binding after each change. An
// error that wraps ErrUnbound means that the name is not bound at the moment; more follows.
// Any other error is the last: the cause of ctx's end, what ended the session, or a
// server's error.
func (n *Names) Follow(ctx context.Context, name string) iter.Seq2[Binding, error] {
	return func(yield func(Binding, error) bool) {
		path, err := n.node(name)
		if err != nil {
			yield(Binding{}, err)
			return
		}
		for now, err := range typed.New(n.c, path, raw{}).Follow(ctx) {
			b := binding(name, now.Value, now.Stat)
			switch {
			case err != nil:
				b, err = Binding{}, wrap("follow", name, line.Lost(err))
			case !now.Exists:
				b, err = Binding{}, fmt.Errorf("follow %q: %w", name, ErrUnbound)
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// raw is the codec of a value that is the data itself.
type raw struct{}

func (raw) Encode(v []byte) ([]byte, error)    { return v, nil }
func (raw) Decode(data []byte) ([]byte, error) { return data, nil }

// Entry is a name in a list.
type Entry struct {
	Name    string // the whole name, with its context
	Context bool   // whether the entry is a context; a name that is bound too has two entries
}

// List returns the names and the contexts in a context, sorted. "" is the context of names
// without "/". A context that does not exist is empty. The error wraps recipes.ErrLayout if
// there is a node that is neither a binding nor a context.
func (n *Names) List(ctx context.Context, context string) ([]Entry, error) {
	dir, err := n.dir(context)
	if err != nil {
		return nil, err
	}
	list, err := n.c.Children(ctx, dir)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", context, err)
	}
	entries := make([]Entry, 0, len(list.Names))
	for _, child := range list.Names {
		escaped, isContext := strings.CutSuffix(child, contextMark)
		part, err := line.Unescape(escaped)
		if err != nil || strings.Contains(part, "/") {
			return nil, fmt.Errorf("%w: %s has a child %q; delete it, or use another path", recipes.ErrLayout, dir, child)
		}
		if context != "" {
			part = context + "/" + part
		}
		entries = append(entries, Entry{part, isContext})
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		if c := cmp.Compare(a.Name, b.Name); c != 0 || a.Context == b.Context {
			return c
		}
		if a.Context {
			return 1
		}
		return -1
	})
	return entries, nil
}
