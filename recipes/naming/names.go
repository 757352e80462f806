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

// ErrUnbound is that a name is not bound.
var ErrUnbound = errors.New("name is not bound")

// ErrBound is that a name is bound already.
var ErrBound = errors.New("name is bound already")

// Options are what Names can be told.
type Options struct {
	// ACL is that of new nodes; nil is client.OpenACL.
	ACL []client.ACL
}

// Names is a name service below a path. All methods may be called from any goroutine.
type Names struct {
	c    *client.Client
	path string
	o    Options
}

// New returns the names below path. It does not talk to the servers.
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
	// Version is for Rebind and Unbind. It begins with 0 anew when a name that was
	// unbound is bound again.
	Version int32
	// Owner is the session that the binding ends with, or 0 if it is persistent.
	Owner client.SessionID
}

// Bind binds a name to a value, until it is unbound. The error wraps ErrBound if it is
// bound already. A nil value is an empty one.
func (n *Names) Bind(ctx context.Context, name string, value []byte) error {
	return n.bind(ctx, name, value, client.Persistent)
}

// BindEphemeral is Bind until the client's session ends.
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
	const rounds = 10 // a container may be deleted between being made and being used
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

// Rebind replaces the value of a name that is bound, if its version is version, or
// whatever it is if that is client.AnyVersion. It returns the new version. The error
// wraps ErrUnbound if the name is not bound, and client.ErrBadVersion if somebody was
// faster.
//
// It takes a rebind to the same value at the same moment for its own.
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
			found, err := n.c.Exists(ctx, path) // if a server that lags behind has none, the set will tell
			if err != nil {
				return 0, wrap("rebind", name, err)
			}
			at = found.Stat.Version
		}
		stat, err := settle.Set(ctx, n.c, path, value, at)
		faster := errors.Is(err, client.ErrBadVersion) && !client.IsAmbiguous(err)
		if !faster || version != client.AnyVersion {
			return stat.Version, wrap("rebind", name, err)
		}
	}
}

// Unbind ends a binding, if its version is version, or whatever it is if that is
// client.AnyVersion. The error wraps ErrUnbound if the name is not bound. Contexts that
// nothing is bound in any more are deleted by the servers, some time later.
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

// wrap says what was done to which name, and that a name without a node is not bound.
func wrap(verb, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrNoNode) && !client.IsAmbiguous(err):
		return fmt.Errorf("%s %q: %w: %w", verb, name, ErrUnbound, err)
	}
	return fmt.Errorf("%s %q: %w", verb, name, err)
}

// Follow returns what a name is bound to now, and then after each change, skipping what is
// not the newest any more. While it is not bound that comes as an error that wraps
// ErrUnbound, and is followed by more; any other error is the last: the cause of ctx's
// end, what ended the session, or a server's.
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

// raw is the codec of data as they are.
type raw struct{}

func (raw) Encode(v []byte) ([]byte, error)    { return v, nil }
func (raw) Decode(data []byte) ([]byte, error) { return data, nil }

// Entry is a name in a list.
type Entry struct {
	Name    string // whole, with the context's
	Context bool   // whether it is a context; a bound name has an Entry without
}

// List returns the names in a context, sorted: those that are bound, and those of
// contexts. "" is the context of names without "/". A context that does not exist has
// none. The error wraps recipes.ErrLayout if there is a node that is neither.
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
