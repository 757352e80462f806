package client

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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

// Text is the Codec of types that know their own text, such as netip.Addr and
// time.Time: P is *T.
type Text[T encoding.TextMarshaler, P interface {
	*T
	encoding.TextUnmarshaler
}] struct{}

// Encode calls v.MarshalText.
func (Text[T, P]) Encode(v T) ([]byte, error) { return v.MarshalText() }

// Decode calls UnmarshalText.
func (Text[T, P]) Decode(data []byte) (v T, err error) { return v, P(&v).UnmarshalText(data) }

// ErrData is that a node's data and the values of its Typed are not for each other.
var ErrData = errors.New("data and type don't fit")

// Typed is a node whose data is a T. All its methods may be called from any
// goroutine.
type Typed[T any] struct {
	c     *Client
	path  string
	codec Codec[T]
}

// NewTyped returns a node of c as a T. A nil codec is JSON[T].
func NewTyped[T any](c *Client, path string, codec Codec[T]) *Typed[T] {
	if codec == nil {
		codec = JSON[T]{}
	}
	return &Typed[T]{c: c, path: path, codec: codec}
}

// Path returns the node's path.
func (t *Typed[T]) Path() string { return t.path }

// Get returns the node's value; the Stat's Version is for Set. ErrData if
// the data is not a T.
func (t *Typed[T]) Get(ctx context.Context) (T, Stat, error) {
	node, err := t.c.Get(ctx, t.path)
	if err != nil {
		var none T
		return none, Stat{}, err
	}
	v, err := t.decode(node.Data)
	return v, node.Stat, err
}

func (t *Typed[T]) decode(data []byte) (T, error) {
	v, err := t.codec.Decode(data)
	if err != nil {
		err = fmt.Errorf("decode %s: %w: %w", t.path, ErrData, err)
	}
	return v, err
}

func (t *Typed[T]) encode(v T) ([]byte, error) {
	data, err := t.codec.Encode(v)
	if err != nil {
		err = fmt.Errorf("encode %s: %w: %w", t.path, ErrData, err)
	}
	return data, err
}

// Create creates the node: see Client.Create.
func (t *Typed[T]) Create(ctx context.Context, v T, mode CreateMode, acl []ACL) (string, error) {
	data, err := t.encode(v)
	if err != nil {
		return "", err
	}
	made, err := t.c.Create(ctx, t.path, data, CreateOptions{Mode: mode, ACL: acl})
	return made.Path, err
}

// Set replaces the node's value if its version is version, or any if that is
// AnyVersion: see Client.Set.
func (t *Typed[T]) Set(ctx context.Context, v T, version int32) (Stat, error) {
	data, err := t.encode(v)
	if err != nil {
		return Stat{}, err
	}
	return t.c.Set(ctx, t.path, data, version)
}

// Update replaces the node's value by what fn makes of it, and returns the new one.
// When somebody else changes the node meanwhile fn is called again, with the newer
// value; so it must do nothing but compute. An error of fn ends it.
//
// The change is made exactly once or not at all. If the connection breaks Update
// finds out which, and goes on, as the view's RetryPolicy says, or DefaultRetry. It
// can't find out if the node has the new value but maybe by somebody else's doing
// (another client may have counted to the same number), or has changed further
// since: then the error is ErrBadVersion, and IsAmbiguous. See UpdateIdempotent.
func (t *Typed[T]) Update(ctx context.Context, fn func(T) (T, error)) (T, Stat, error) {
	return t.update(ctx, t.c.WithRetry(t.c.policy()), fn, func(ctx context.Context, data []byte, old Stat) (Stat, error) {
		w := &write{c: t.c.once(), path: t.path, data: data, version: old.Version, czxid: old.Czxid}
		err := w.settle(ctx, t.c.policy())
		if err == nil && w.looked {
			w.unknown = true
			err = w.error(ErrBadVersion, errors.New("the node has the value, but others may have set it"))
		}
		return w.stat, err
	})
}

// UpdateIdempotent is Update for an fn that does no harm if it is done once more,
// as one that sets a field to a fixed value: after an error that IsAmbiguous it
// begins again.
func (t *Typed[T]) UpdateIdempotent(ctx context.Context, fn func(T) (T, error)) (v T, stat Stat, err error) {
	err = t.c.policy().Do(ctx, IsTransient, func(ctx context.Context) error {
		once := t.c.once()
		v, stat, err = t.update(ctx, once, fn, func(ctx context.Context, data []byte, old Stat) (Stat, error) {
			return once.Set(ctx, t.path, data, old.Version)
		})
		return err
	})
	return v, stat, err
}

// update is the optimistic loop; c is to read with.
func (t *Typed[T]) update(ctx context.Context, c *Client, fn func(T) (T, error), set func(ctx context.Context, data []byte, old Stat) (Stat, error)) (v T, stat Stat, err error) {
	reads := &Typed[T]{c: c, path: t.path, codec: t.codec}
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
		if !errors.Is(err, ErrBadVersion) || IsAmbiguous(err) {
			return v, Stat{}, err
		}
	}
}

// Value is what a node is at a time.
type Value[T any] struct {
	Value  T
	Stat   Stat
	Exists bool // if not, Value and Stat are zero
}

// Follow returns what the node is now, and what it becomes with each change, its
// deletion and its creation included, until the loop or ctx ends. Changes that come
// faster than the loop takes them are skipped but for the last. It goes on through
// lost connections, which hide no change, and with Options.RenewSession through
// the end of the session, unless the view's RetryPolicy has had enough. Data that is
// not a T comes with an ErrData and is followed by more; any other error is the last.
// The node need not exist.
func (t *Typed[T]) Follow(ctx context.Context) iter.Seq2[Value[T], error] {
	return func(yield func(Value[T], error) bool) {
		f := &following[T]{Typed: &Typed[T]{c: t.c.WithRetry(t.c.policy()).WithInbox(nil), path: t.path, codec: t.codec}}
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
					t.c.drop(watch)
					return
				}
			}
			watch.Next(ctx) // it is fired, or ended: a look will say why
			if ctx.Err() != nil {
				t.c.drop(watch)
				yield(Value[T]{}, context.Cause(ctx))
				return
			}
		}
	}
}

// drop closes a watch without waiting for the server.
func (c *Client) drop(w *Watch) {
	if !c.s.inBackground(func(ctx context.Context) { w.Close(ctx) }) {
		w.end(ErrWatchClosed)
	}
}

// following is a Follow under way.
type following[T any] struct {
	*Typed[T]
	began bool
	last  Value[T] // without its Value
}

// look reads the node and sets a watch for its next change.
func (f *following[T]) look(ctx context.Context) (now Value[T], data []byte, watch *Watch, err error) {
	for {
		node, err := f.c.GetW(ctx, f.path)
		if err == nil {
			return Value[T]{Stat: node.Stat, Exists: true}, node.Data, node.Watch, nil
		}
		if !errors.Is(err, ErrNoNode) {
			return now, nil, nil, err
		}
		found, err := f.c.ExistsW(ctx, f.path)
		if err != nil {
			return now, nil, nil, err
		}
		if !found.Exists {
			return now, nil, found.Watch, nil
		}
		f.c.drop(found.Watch) // the node has been created in between
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
