package settle

import (
	"context"
	"errors"
	"log/slog"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// DeleteOptions say how Delete deletes. The zero value is good for most.
type DeleteOptions struct {
	// Insist continues in the background if the context or the attempts end before the
	// node is gone. See Delete.
	Insist bool
	// Unique means that there is never another node at the path, as for nodes of ByPath.
	// Then Delete needs no look at the node before. It sees by itself that a path is one
	// of ByGUID.
	Unique bool
}

// Delete deletes a node if its version is version, or any if that is
// client.AnyVersion, and repeats that as the policy of c says until it knows the
// outcome. ErrNoNode counts as success if an attempt may have been done. Delete deletes
// the node that exists when it is called, not one that another client creates in its
// place meanwhile: to tell them apart it looks at the node first, unless the path is
// unique.
//
// With DeleteOptions.Insist the deletion continues in the background when the context
// or the attempts have ended, until the node is gone, the session is over, or the
// servers refuse (ErrNotEmpty, ErrNoAuth), which is logged. An error that is the
// context's or ErrConnectionLoss means that it does. Close does not wait for the node to
// be gone: an ephemeral node goes with the session, another may be left.
func Delete(ctx context.Context, c *client.Client, path string, version int32, o DeleteOptions) error {
	_, _, protected := ProtectedName(jute.Base(path))
	d := &deletion{c: c.WithRetry(nil), path: path, version: version, unique: o.Unique || protected}
	err := d.settle(ctx, c.Options().Retry)
	if err != nil && o.Insist && (ctx.Err() != nil || mendable(c)(err)) {
		c.Session().Background(d.finish)
	}
	return err
}

// deletion is a delete under way of one node: the one that was created at czxid.
type deletion struct {
	c       *client.Client
	path    string
	version int32
	czxid   client.Zxid // 0 if not known yet
	unique  bool        // there is never another node at the path
	unknown bool        // it was sent, and may have been done
}

func (d *deletion) settle(ctx context.Context, policy *client.RetryPolicy) error {
	err := policy.Do(ctx, client.IsTransient, d.attempt)
	return inDoubt(err, jute.OpDelete, d.path, d.unknown)
}

// attempt deletes the node, or finds out that this has been done.
func (d *deletion) attempt(ctx context.Context) error {
	if !d.unique && (d.unknown || d.czxid == 0) {
		gone, err := d.look(ctx)
		if gone || err != nil {
			return err
		}
	}
	err := d.c.Delete(ctx, d.path, d.version)
	if d.unknown && errors.Is(err, client.ErrNoNode) {
		err = nil
	}
	d.unknown = err != nil && (d.unknown && !isAnswer(err) || client.IsAmbiguous(err))
	return err
}

// look finds out which node is meant, or whether that is gone.
func (d *deletion) look(ctx context.Context) (gone bool, err error) {
	if d.unknown {
		if err := d.c.Sync(ctx, d.path); err != nil {
			return false, err
		}
	}
	node, err := d.c.Exists(ctx, d.path)
	if err == nil && !node.Exists && !d.unknown && d.czxid == 0 { // the server may lag behind
		if err = d.c.Sync(ctx, d.path); err == nil {
			node, err = d.c.Exists(ctx, d.path)
		}
	}
	switch {
	case errors.Is(err, client.ErrNoAuth) && !d.unknown:
		return false, nil // it can still be deleted, but not be told from a later one
	case err != nil:
		return false, err
	case d.czxid != 0 && (!node.Exists || node.Stat.Czxid != d.czxid):
		d.unknown = false
		return true, nil
	case !node.Exists:
		return false, &client.Error{Op: jute.OpDelete, Path: d.path, Err: client.ErrNoNode}
	}
	d.czxid, d.unknown = node.Stat.Czxid, false
	return false, nil
}

// finish deletes the node in the background.
func (d *deletion) finish(ctx context.Context) {
	err := stubborn.Do(ctx, mendable(d.c), d.attempt)
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		d.c.Options().Logger.Log(ctx, slog.LevelWarn, "guaranteed delete has failed", "path", d.path, "err", err)
	}
}
