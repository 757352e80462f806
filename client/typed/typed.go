// Package typed reads, writes and follows nodes as values of a Go type.
package typed

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
)

// Codec turns values into the data of nodes and back.
type Codec[T any] interface {
	Encode(v T) ([]byte, error)
	Decode(data []byte) (T, error)
}

// JSON is the Codec of encoding/json.
type JSON[T any] struct{}

// Encode returns v as JSON, without a newline at the end.
func (JSON[T]) Encode(v T) ([]byte, error) { return json.Marshal(v) }

// Decode reads JSON.
func (JSON[T]) Decode(data []byte) (v T, err error) { return v, json.Unmarshal(data, &v) }

// String is the Codec of nodes whose data is a text.
type String struct{}

// Encode returns the bytes of v.
func (String) Encode(v string) ([]byte, error) { return []byte(v), nil }

// Decode returns data as it is.
func (String) Decode(data []byte) (string, error) { return string(data), nil }

// Text is the Codec of types that marshal themselves to text, such as netip.Addr and
// time.Time: P is *T.
type Text[T encoding.TextMarshaler, P interface {
	*T
	encoding.TextUnmarshaler
}] struct{}

// Encode calls v.MarshalText.
func (Text[T, P]) Encode(v T) ([]byte, error) { return v.MarshalText() }

// Decode calls UnmarshalText.
func (Text[T, P]) Decode(data []byte) (v T, err error) { return v, P(&v).UnmarshalText(data) }

// ErrData means that the data of a node cannot be decoded, or a value not encoded.
var ErrData = errors.New("data and type don't fit")

// Node is a node whose data is a T. Its methods may be called from any goroutine.
type Node[T any] struct {
	c     *client.Client
	path  string
	codec Codec[T]
}

// New returns a node of c as a T. A nil codec is JSON[T].
func New[T any](c *client.Client, path string, codec Codec[T]) *Node[T] {
	if codec == nil {
		codec = JSON[T]{}
	}
	return &Node[T]{c: c, path: path, codec: codec}
}

// Get returns the node's value; the Stat's Version is for Set. ErrData if
// the data is not a T.
func (t *Node[T]) Get(ctx context.Context) (T, client.Stat, error) {
	node, err := t.c.Get(ctx, t.path)
	if err != nil {
		var none T
		return none, client.Stat{}, err
	}
	v, err := t.decode(node.Data)
	return v, node.Stat, err
}

func (t *Node[T]) decode(data []byte) (T, error) {
	v, err := t.codec.Decode(data)
	if err != nil {
		err = fmt.Errorf("decode %s: %w: %w", t.path, ErrData, err)
	}
	return v, err
}

func (t *Node[T]) encode(v T) ([]byte, error) {
	data, err := t.codec.Encode(v)
	if err != nil {
		err = fmt.Errorf("encode %s: %w: %w", t.path, ErrData, err)
	}
	return data, err
}

// Create creates the node: see Client.Create.
func (t *Node[T]) Create(ctx context.Context, v T, o client.CreateOptions) (client.Created, error) {
	data, err := t.encode(v)
	if err != nil {
		return client.Created{}, err
	}
	return t.c.Create(ctx, t.path, data, o)
}

// Set replaces the node's value if its version is version, or any if that is
// AnyVersion: see Client.Set.
func (t *Node[T]) Set(ctx context.Context, v T, version int32) (client.Stat, error) {
	data, err := t.encode(v)
	if err != nil {
		return client.Stat{}, err
	}
	return t.c.Set(ctx, t.path, data, version)
}

// Update replaces the node's value by the one that fn computes from it, and returns the
// new value. If another client changes the node meanwhile, fn is called again with the
// newer value, so it must do nothing but compute. An error of fn ends Update.
//
// The change is made exactly once or not at all. If the connection breaks, Update finds
// out which, and continues as the client's policy says. It cannot find out if the node
// has the new value, which another client may have set (it may have counted to the same
// number), or has changed further since: then the error is ErrBadVersion and
// IsAmbiguous. See UpdateIdempotent.
func (t *Node[T]) Update(ctx context.Context, fn func(T) (T, error)) (T, client.Stat, error) {
	return t.update(ctx, t.c.Steady(), fn, func(ctx context.Context, data []byte, old client.Stat) (client.Stat, error) {
		return settle.Replace(ctx, t.c, t.path, data, old)
	})
}

// UpdateIdempotent is Update for a change that does no harm if it is made twice, such as
// setting a field to a fixed value: after an error that IsAmbiguous it starts again.
func (t *Node[T]) UpdateIdempotent(ctx context.Context, fn func(T) (T, error)) (v T, stat client.Stat, err error) {
	err = t.c.Options().Retry.Do(ctx, client.IsTransient, func(ctx context.Context) error {
		once := t.c.WithRetry(nil)
		v, stat, err = t.update(ctx, once, fn, func(ctx context.Context, data []byte, old client.Stat) (client.Stat, error) {
			return once.Set(ctx, t.path, data, old.Version)
		})
		return err
	})
	return v, stat, err
}

// update is the optimistic loop; c is to read with.
func (t *Node[T]) update(ctx context.Context, c *client.Client, fn func(T) (T, error), set func(ctx context.Context, data []byte, old client.Stat) (client.Stat, error)) (v T, stat client.Stat, err error) {
	reads := &Node[T]{c: c, path: t.path, codec: t.codec}
	for {
		old, stat, err := reads.Get(ctx)
		if err != nil {
			return v, stat, err
		}
		next, err := fn(old)
		if err != nil {
			return v, stat, err
		}
		data, err := t.encode(next)
		if err != nil {
			return v, stat, err
		}
		stat, err = set(ctx, data, stat)
		if err == nil {
			return next, stat, nil
		}
		if !errors.Is(err, client.ErrBadVersion) || client.IsAmbiguous(err) {
			return v, client.Stat{}, err
		}
	}
}

// Value is the state of a node at one time.
type Value[T any] struct {
	Value  T
	Stat   client.Stat
	Exists bool // if not, Value and Stat are zero
}

// Follow yields the node's current state, and its state after each change, including
// deletion and creation, until the loop or ctx ends. If changes come faster than the
// loop takes them, only the last of them is yielded. Follow survives lost connections,
// which hide no change, and with client.Options.RenewSession also the end of the
// session, as long as the client's policy allows. Data that is not a T is yielded with
// an ErrData, and the loop continues; any other error is the last. The node need not
// exist.
func (t *Node[T]) Follow(ctx context.Context) iter.Seq2[Value[T], error] {
	return func(yield func(Value[T], error) bool) {
		f := &following[T]{Node: &Node[T]{c: t.c.Steady().WithInbox(nil), path: t.path, codec: t.codec}}
		for {
			now, data, watch, err := f.look(ctx)
			if err != nil {
				yield(Value[T]{}, err)
				return
			}
			if f.changed(now) {
				if now.Exists {
					now.Value, err = t.decode(data)
				}
				if !yield(now, err) {
					drop(t.c, watch)
					return
				}
			}
			watch.Next(ctx) // it has fired or ended; the next look says why
			if ctx.Err() != nil {
				drop(t.c, watch)
				yield(Value[T]{}, context.Cause(ctx))
				return
			}
		}
	}
}

// drop closes a watch without waiting for the server.
func drop(c *client.Client, w *client.Watch) {
	c.Session().Background(func(ctx context.Context) { w.Close(ctx) })
}

// following is a Follow under way.
type following[T any] struct {
	*Node[T]
	began bool
	last  Value[T] // without its Value
}

// look reads the node and sets a watch for its next change.
func (f *following[T]) look(ctx context.Context) (now Value[T], data []byte, watch *client.Watch, err error) {
	for {
		node, err := f.c.GetW(ctx, f.path)
		if err == nil {
			return Value[T]{Stat: node.Stat, Exists: true}, node.Data, node.Watch, nil
		}
		if !errors.Is(err, client.ErrNoNode) {
			return now, nil, nil, err
		}
		found, err := f.c.ExistsW(ctx, f.path)
		if err != nil {
			return now, nil, nil, err
		}
		if !found.Exists {
			return now, nil, found.Watch, nil
		}
		drop(f.c, found.Watch) // the node has been created in between
	}
}

// changed reports whether now is another state than the last one.
func (f *following[T]) changed(now Value[T]) bool {
	was := f.last
	f.last.Exists, f.last.Stat = now.Exists, now.Stat
	if !f.began {
		f.began = true
		return true
	}
	return now.Exists != was.Exists || now.Stat.Mzxid != was.Stat.Mzxid || now.Stat.Czxid != was.Stat.Czxid
}
