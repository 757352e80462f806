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

// Options configure a Value. The zero value is good for most.
type Options[T any] struct {
	// Codec converts between values and data. Nil means typed.JSON.
	Codec typed.Codec[T]
	// Seed is the value while there is no node.
	Seed T
	// Exact makes it always possible to find out, while the session lives, whether a
	// change whose reply was lost was made. It costs the session an ephemeral node, and
	// each change is a multi of two operations. The Value must be closed.
	Exact bool
	// ACL is the access list of new nodes; nil means client.OpenACL.
	ACL []client.ACL
}

// Value is a value at a path. It may be used from any goroutine.
type Value[T any] struct {
	c     *client.Client
	path  string
	typed *typed.Node[T]
	o     Options[T]
	marks *receipt.Book // nil unless Options.Exact
}

// New returns the value at path. It sends no request.
func New[T any](c *client.Client, path string, o Options[T]) (*Value[T], error) {
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	if o.Codec == nil {
		o.Codec = typed.JSON[T]{}
	}
	v := &Value[T]{c: c.Steady(), path: path, o: o}
	v.typed = typed.New(v.c, path, o.Codec)
	if o.Exact {
		v.marks = receipt.New(v.c, receipt.Options{
			Path: func() string { return path + "/_c_" + line.NewID() + "-mark" },
			ACL:  o.ACL,
		})
	}
	return v, nil
}

// Get returns the value as the client's server knows it, which may lag behind the others:
// call client.Client.Sync before it to get the newest. If there is no node the value is
// the seed, and Exists is false. The error wraps typed.ErrData if the data is not a T.
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

// Follow returns the value, and then the newest value whenever it has changed, as
// typed.Node.Follow does. Data that is not a T comes with a typed.ErrData, and more
// follows. While there is no node the value is the seed.
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

// Update replaces the value by what fn returns for it, and returns the new one. It calls
// fn again with a newer value if somebody else was faster, so fn must only compute. An
// error of fn ends Update, once fn was called with the value that the leader knows. See
// the package's documentation for when an error is ambiguous.
func (v *Value[T]) Update(ctx context.Context, fn func(T) (T, error)) (typed.Value[T], error) {
	for {
		old, to, err := v.compute(ctx, fn)
		if err != nil {
			return typed.Value[T]{}, err
		}
		now, err := v.TrySet(ctx, old, to)
		if !Conflict(err) {
			return now, err
		}
	}
}

// compute returns the value and what fn returns for it. If that is an error, the value may
// be old: it is computed again from one that is not.
func (v *Value[T]) compute(ctx context.Context, fn func(T) (T, error)) (old typed.Value[T], to T, err error) {
	for synced := false; ; synced = true {
		if old, err = v.Get(ctx); err != nil {
			return old, to, err
		}
		if to, err = fn(old.Value); err == nil || synced {
			return old, to, err
		}
		if err = v.c.Sync(ctx, v.path); err != nil {
			return old, to, err
		}
	}
}

// TrySet replaces the value if its version is still that of old, which Get, Follow or a
// change returned, and returns the new value. If somebody was faster, nothing is done and
// the error wraps client.ErrBadVersion. See the package's documentation for when an error
// is ambiguous.
func (v *Value[T]) TrySet(ctx context.Context, old typed.Value[T], to T) (typed.Value[T], error) {
	return v.replace(ctx, old, to, false)
}

// Set replaces the value, whatever it is, even if it is not a T. If it finds the value
// after a lost reply, it does not matter who has set it.
func (v *Value[T]) Set(ctx context.Context, to T) (typed.Value[T], error) {
	for {
		_, stat, exists, err := v.read(ctx)
		if err != nil {
			return typed.Value[T]{}, err
		}
		now, err := v.replace(ctx, typed.Value[T]{Stat: stat, Exists: exists}, to, true)
		if !Conflict(err) {
			return now, err
		}
	}
}

// Conflict reports whether err means that somebody else was faster, and that nothing was
// done.
func Conflict(err error) bool {
	return errors.Is(err, client.ErrBadVersion) && !client.IsAmbiguous(err)
}

// read returns the node, if it exists.
func (v *Value[T]) read(ctx context.Context) (data []byte, stat client.Stat, exists bool, err error) {
	node, err := v.c.Get(ctx, v.path)
	if errors.Is(err, client.ErrNoNode) {
		return nil, client.Stat{}, false, nil
	}
	return node.Data, node.Stat, err == nil, err
}

// replace is TrySet. If anyones is true, the same data set by another client at the same
// time counts as this change.
func (v *Value[T]) replace(ctx context.Context, old typed.Value[T], to T, anyones bool) (typed.Value[T], error) {
	none := typed.Value[T]{}
	if v.marks != nil && v.marks.Closed() {
		return none, recipes.ErrClosed
	}
	data, err := v.encode(to)
	if err != nil {
		return none, err
	}
	stat := old.Stat
	if !old.Exists {
		if stat, err = v.plant(ctx); err != nil {
			return none, err
		}
	}
	switch {
	case v.marks != nil:
		stat, err = v.writeMarked(ctx, data, stat)
	case anyones && old.Exists:
		stat, err = settle.Set(ctx, v.c, v.path, data, stat.Version)
	default:
		stat, err = v.write(ctx, data, stat)
	}
	if errors.Is(err, client.ErrNoNode) && !client.IsAmbiguous(err) {
		err = fmt.Errorf("%w: the node is gone: %w", client.ErrBadVersion, err)
	}
	if err != nil {
		return none, err
	}
	return typed.Value[T]{Value: to, Stat: stat, Exists: true}, nil
}

func (v *Value[T]) encode(value T) ([]byte, error) {
	data, err := v.o.Codec.Encode(value)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w: %w", v.path, typed.ErrData, err)
	}
	return data, nil
}

// plant creates the node with the seed. So a change is never a create, after which nobody
// could tell whose it was; of a node with the seed it does not matter. The error is a
// conflict if the node has been changed already.
func (v *Value[T]) plant(ctx context.Context) (client.Stat, error) {
	seed, err := v.encode(v.o.Seed)
	if err != nil {
		return client.Stat{}, fmt.Errorf("seed: %w", err)
	}
	_, err = settle.CreateInContainer(ctx, v.c, v.path, seed, settle.CreateOptions{ACL: v.o.ACL})
	if err != nil && !errors.Is(err, client.ErrNodeExists) {
		return client.Stat{}, line.Settled(err, nil) // the seed may be planted; the value is as it was
	}
	data, stat, exists, err := v.read(ctx)
	if err == nil && (!exists || stat.Version != 0 || !bytes.Equal(data, seed)) {
		err = fmt.Errorf("set %s: %w: the node was created meanwhile", v.path, client.ErrBadVersion)
	}
	return stat, err
}

// Close deletes the marks of a Value that is Exact, also those of which it is not known
// whether they were made. Later changes fail with recipes.ErrClosed; those under way
// delete their marks when they end. It is idempotent. Other Values need not be closed.
func (v *Value[T]) Close(ctx context.Context) error {
	if v.marks == nil {
		return nil
	}
	return v.marks.Close(ctx)
}
