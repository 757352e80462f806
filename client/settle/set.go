package settle

import (
	"bytes"
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// Set replaces a node's data if its version is version, and repeats that as the policy
// of c says until it knows the outcome. If a set may have been done, it looks at the
// node: the set was done if the node has the data and the next version. If the node has
// changed further since, nobody can know whose change came first, and the error is
// ErrBadVersion and IsAmbiguous. If another client sets the same data at the same
// version, both succeed: see Replace.
//
// version must not be AnyVersion, because repeating an unconditional set could undo
// another client's later change.
func Set(ctx context.Context, c *client.Client, path string, data []byte, version int32) (client.Stat, error) {
	w := &write{c: c.WithRetry(nil), path: path, data: data, version: version}
	if version == client.AnyVersion {
		return client.Stat{}, w.error(client.ErrBadArguments, errors.New("a set that may be repeated needs the version it is for"))
	}
	err := w.settle(ctx, c.Options().Retry)
	return w.stat, err
}

// Replace is Set of the node that had the Stat old, for data that other clients may set
// as well, such as a count. If the connection broke and the node has the data at the
// next version, Replace does not know whose set that was: the error is ErrBadVersion and
// IsAmbiguous. If the node at the path is another one by now, the error is
// ErrBadVersion.
func Replace(ctx context.Context, c *client.Client, path string, data []byte, old client.Stat) (client.Stat, error) {
	w := &write{c: c.WithRetry(nil), path: path, data: data, version: old.Version, czxid: old.Czxid}
	err := w.settle(ctx, c.Options().Retry)
	if err == nil && w.looked {
		w.unknown = true
		err = w.error(client.ErrBadVersion, errors.New("the node has the value, but others may have set it"))
	}
	return w.stat, err
}

// write is a set under way, of one version.
type write struct {
	c       *client.Client
	path    string
	data    []byte
	version int32
	czxid   client.Zxid // of the node that is meant; 0 is any
	stat    client.Stat
	unknown bool // it was sent, and may have been done
	looked  bool // a look at the node, not a reply, showed that it was done
}

func (w *write) error(err error, cause error) *client.Error {
	return &client.Error{Op: jute.OpSetData, Path: w.path, Err: err, Cause: cause, Ambiguous: w.unknown}
}

func (w *write) settle(ctx context.Context, policy *client.RetryPolicy) error {
	err := policy.Do(ctx, client.IsTransient, w.attempt)
	return inDoubt(err, jute.OpSetData, w.path, w.unknown)
}

// attempt sets the data, or finds out that it has been done or cannot be done any more.
func (w *write) attempt(ctx context.Context) error {
	if w.unknown {
		done, err := w.look(ctx)
		if done || err != nil {
			return err
		}
		w.unknown = false
	}
	var err error
	w.stat, err = w.c.Set(ctx, w.path, w.data, w.version)
	w.unknown = client.IsAmbiguous(err)
	return err
}

// look reports whether the set was done. It fails if the set cannot be done any more, or
// if that cannot be known: then unknown stays true.
func (w *write) look(ctx context.Context) (done bool, err error) {
	if err := w.c.Sync(ctx, w.path); err != nil {
		return false, err
	}
	node, err := w.c.Get(ctx, w.path)
	switch {
	case errors.Is(err, client.ErrNoNode):
		return false, w.error(client.ErrNoNode, nil)
	case err != nil:
		return false, err
	case w.czxid != 0 && node.Stat.Czxid != w.czxid:
		return false, w.error(client.ErrBadVersion, errors.New("the node was deleted and created again"))
	case node.Stat.Version == w.version:
		return false, nil
	case node.Stat.Version != w.version+1:
		return false, w.error(client.ErrBadVersion, nil)
	case bytes.Equal(node.Data, w.data):
		w.stat, w.unknown, w.looked = node.Stat, false, true
		return true, nil
	}
	w.unknown = false // another client's set made this version
	return false, w.error(client.ErrBadVersion, nil)
}
