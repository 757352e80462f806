package value

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/internal/receipt"
)

// Options are what a Value can be told. The zero value is good for most.
type Options[T any] struct {
	// Codec makes data of values and back. Nil is typed.JSON.
	Codec typed.Codec[T]
	// Seed is the value as long as there is no node.
	Seed T
	// Exact finds out in all cases what has become of a change whose reply is
	// lost, while the session lives. It costs the session an ephemeral node, and each
	// change is a multi of two. The Value must be closed.
	Exact bool
	// ACL is that of new nodes; nil is client.OpenACL.
	ACL []client.ACL
}

// Value is a value at a path. All methods may be called from any goroutine.
type Value[T any] struct {
	c     *client.Client
	path  string
	typed *typed.Node[T]
	codec typed.Codec[T]
	o     Options[T]
	marks *receipt.Book // nil unless Options.Exact
}

// New returns the value at path. It does not talk to the servers.
func New[T any](c *client.Client, path string, o Options[T]) (*Value[T], error) {
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	if o.Codec == nil {
		o.Codec = typed.JSON[T]{}
	}
	v := &Value[T]{c: c.Steady(), path: path, codec: o.Codec, o: o}
	v.typed = typed.New(v.c, path, o.Codec)
	if o.Exact {
		v.marks = receipt.New(v.c, receipt.Options{
			Path: func() string { return path + "/_c_" + line.NewID() + "-mark" },
			ACL:  o.ACL,
		})
	}
	return v, nil
}

// Path returns the node's path.
func (v *Value[T]) Path() string { return v.path }

// Get returns the value as the server knows it, which may lag behind: a
// client.Client.Sync before makes it that of now. If there is no node it is the seed,
// and Exists is false. The error wraps typed.ErrData if the node's data is not a T.
func (v *Value[T]) Get(ctx context.Context) (typed.Value[T], error) {
	now, stat, err := v.typed.Get(ctx)
	if errors.Is(err, client.ErrNoNode) {
		return typed.Value[T]{Value: v.o.Seed}, nil
	}
	if err != nil {
		return typed.Value[T]{}, err
	}
	return typed.Value[T]{Value: now, Stat: stat, Exists: true}, nil
}

// Follow returns the value as it is now, and then as it is after each change, as
// typed.Node.Follow does: changes that come fast are skipped but for the last, and
// data that is not a T comes with a typed.ErrData and is followed by more. While there
// is no node the value is the seed.
func (v *Value[T]) Follow(ctx context.Context) iter.Seq2[typed.Value[T], error] {
	return func(yield func(typed.Value[T], error) bool) {
		for now, err := range v.typed.Follow(ctx) {
			if err == nil && !now.Exists {
				now.Value = v.o.Seed
			}
			if !yield(now, line.Lost(err)) {
				return
			}
		}
	}
}

// TrySet replaces the value if it is still that which Get, Follow or a change returned:
// of the same version, or without a node. It returns the new one. The error wraps
// client.ErrBadVersion if somebody was faster, and nothing is done then; unless
// client.IsAmbiguous(err): see the package's documentation.
func (v *Value[T]) TrySet(ctx context.Context, old typed.Value[T], to T) (typed.Value[T], error) {
	none := typed.Value[T]{}
	if v.marks != nil && v.marks.Closed() {
		return none, recipes.ErrClosed
	}
	data, err := v.codec.Encode(to)
	if err != nil {
		return none, fmt.Errorf("encode %s: %w: %w", v.path, typed.ErrData, err)
	}
	if !old.Exists {
		if old.Stat, err = v.plant(ctx); err != nil {
			return none, err
		}
	}
	stat, err := v.write(ctx, data, old.Stat)
	if errors.Is(err, client.ErrNoNode) && !client.IsAmbiguous(err) {
		err = fmt.Errorf("%w: the node is gone: %w", client.ErrBadVersion, err)
	}
	if err != nil {
		return none, err
	}
	return typed.Value[T]{Value: to, Stat: stat, Exists: true}, nil
}

func (v *Value[T]) write(ctx context.Context, data []byte, old client.Stat) (client.Stat, error) {
	if v.marks != nil {
		return v.mark(ctx, data, old)
	}
	c, _, err := line.Bind(ctx, v.c)
	if err != nil {
		return client.Stat{}, err
	}
	w := &write{c: c, path: v.path, data: data, old: old}
	return w.settle(ctx)
}

// Update replaces the value by what fn makes of it, and returns the new one. When
// somebody else is faster fn is called again with the newer value: so it must do
// nothing but compute. An error of fn ends it, if fn has the same for what the leader
// knows. See the package's documentation for when an error is ambiguous.
func (v *Value[T]) Update(ctx context.Context, fn func(T) (T, error)) (typed.Value[T], error) {
	for synced := false; ; {
		old, err := v.Get(ctx)
		if err != nil {
			return old, err
		}
		to, err := fn(old.Value)
		if err != nil && !synced {
			synced = true // the server may lag behind
			if err = v.c.Sync(ctx, v.path); err == nil {
				continue
			}
		}
		if err != nil {
			return typed.Value[T]{}, err
		}
		now, err := v.TrySet(ctx, old, to)
		if !Conflict(err) {
			return now, err
		}
	}
}

// Set replaces the value, whatever it is, also if it is not a T. It is Update with a
// fixed value, but if the same value is found after a lost reply it doesn't matter whose
// it is.
func (v *Value[T]) Set(ctx context.Context, to T) (typed.Value[T], error) {
	for {
		_, stat, exists, err := v.raw(ctx)
		if err != nil {
			return typed.Value[T]{}, err
		}
		now, err := v.set(ctx, typed.Value[T]{Stat: stat, Exists: exists}, to)
		if !Conflict(err) {
			return now, err
		}
	}
}

// set is TrySet that takes another's same data for its own.
func (v *Value[T]) set(ctx context.Context, old typed.Value[T], to T) (typed.Value[T], error) {
	if v.marks != nil || !old.Exists {
		return v.TrySet(ctx, old, to)
	}
	data, err := v.codec.Encode(to)
	if err != nil {
		return typed.Value[T]{}, fmt.Errorf("encode %s: %w: %w", v.path, typed.ErrData, err)
	}
	stat, err := settle.Set(ctx, v.c, v.path, data, old.Stat.Version)
	if errors.Is(err, client.ErrNoNode) && !client.IsAmbiguous(err) {
		err = fmt.Errorf("%w: the node is gone: %w", client.ErrBadVersion, err)
	}
	return typed.Value[T]{Value: to, Stat: stat, Exists: err == nil}, err
}

// Conflict reports whether err is that somebody else was faster, and surely nothing
// was done.
func Conflict(err error) bool {
	return errors.Is(err, client.ErrBadVersion) && !client.IsAmbiguous(err)
}

func (v *Value[T]) raw(ctx context.Context) (data []byte, stat client.Stat, exists bool, err error) {
	node, err := v.c.Get(ctx, v.path)
	if errors.Is(err, client.ErrNoNode) {
		return nil, client.Stat{}, false, nil
	}
	return node.Data, node.Stat, err == nil, err
}

// plant makes the node with the seed. It is the same whoever has made it, so that the
// change itself never is a create, of which one couldn't tell whose it was. The error
// is a conflict if the node has been changed already.
func (v *Value[T]) plant(ctx context.Context) (client.Stat, error) {
	seed, err := v.codec.Encode(v.o.Seed)
	if err != nil {
		return client.Stat{}, fmt.Errorf("encode the seed of %s: %w: %w", v.path, typed.ErrData, err)
	}
	const rounds = 10 // a container may be deleted between being made and being used
	for round := 1; ; round++ {
		_, err = settle.Create(ctx, v.c, v.path, seed, settle.CreateOptions{ACL: v.o.ACL})
		if err == nil || !errors.Is(err, client.ErrNoNode) || round == rounds {
			break
		}
		if err := settle.Ensure(ctx, v.c, line.Parent(v.path), client.CreateOptions{Mode: client.Container, ACL: v.o.ACL}); err != nil {
			return client.Stat{}, line.Settled(err, nil)
		}
	}
	if err != nil && !errors.Is(err, client.ErrNodeExists) {
		return client.Stat{}, line.Settled(err, nil) // the seed may be planted; the value is as it was
	}
	data, stat, exists, err := v.raw(ctx)
	if err == nil && (!exists || stat.Version != 0 || !bytes.Equal(data, seed)) {
		err = fmt.Errorf("set %s: %w: the node has been made meanwhile", v.path, client.ErrBadVersion)
	}
	return stat, err
}

// Close deletes the marks of a Value that is Exact, also those of which it is not
// known whether they were made. Changes fail with recipes.ErrClosed then; those under way
// go on, and delete theirs when they end. It is idempotent. Other Values need not be
// closed.
func (v *Value[T]) Close(ctx context.Context) error {
	if v.marks == nil {
		return nil
	}
	return v.marks.Close(ctx)
}
