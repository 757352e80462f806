package client

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// DeleteIdempotent is Delete that is repeated if the connection breaks: ErrNoNode
// counts as success if an attempt may have been done. It deletes the node that is
// there when it is called, not one that somebody has created in its place
// meanwhile; for that it looks at the node first, unless the node is protected,
// and thus the only one of its name there will ever be. It repeats as the view's
// RetryPolicy says, or DefaultRetry.
func (c *Client) DeleteIdempotent(ctx context.Context, path string, version int32) error {
	d := c.newDeletion(path, version)
	return d.settle(ctx, c.policy())
}

// DeleteGuaranteed is DeleteIdempotent of any version that does not give up when
// ctx or the attempts end: it goes on in the background until the node is gone, the
// session is over, or the servers refuse (ErrNotEmpty, ErrNoAuth), which is then
// logged. An error that is context's or ErrConnectionLoss says that it has gone
// there. Close doesn't wait for the node to be gone: an ephemeral one goes with the
// session, others may be left.
func (c *Client) DeleteGuaranteed(ctx context.Context, path string) error {
	return c.guarantee(ctx, c.newDeletion(path, AnyVersion))
}

// DeleteUnique is DeleteGuaranteed of a node that CreateUnique has made: as there will
// never be another one at its path, it needn't look at it first.
func (c *Client) DeleteUnique(ctx context.Context, path string) error {
	d := c.newDeletion(path, AnyVersion)
	d.unique = true
	return c.guarantee(ctx, d)
}

// guarantee deletes, and leaves to the background what it can't wait for.
func (c *Client) guarantee(ctx context.Context, d *deletion) error {
	err := d.settle(ctx, c.policy())
	if err != nil && (ctx.Err() != nil || c.worthTrying(err)) {
		c.s.inBackground(d.finish)
	}
	return err
}

// stubborn is the pace of what goes on in the background.
var stubborn = &RetryPolicy{Backoff: 100 * time.Millisecond, MaxBackoff: 5 * time.Second}

// worthTrying reports whether what goes on in the background is to go on after err.
func (c *Client) worthTrying(err error) bool {
	renewed := c.s.opts.RenewSession && c.bound == 0
	return IsTransient(err) || errors.Is(err, ErrNotReadOnly) || renewed && errors.Is(err, ErrSessionExpired)
}

// deletion is a delete under way of one node: the one that was created at czxid.
type deletion struct {
	c       *Client
	path    string
	version int32
	czxid   Zxid // 0 if not known yet
	unique  bool // there is no other node of the name, ever
	unknown bool // it was sent, and it is not known whether it was done
}

func (c *Client) newDeletion(path string, version int32) *deletion {
	_, _, protected := ProtectedName(jute.Base(path))
	return &deletion{c: c.once(), path: path, version: version, unique: protected}
}

func (d *deletion) settle(ctx context.Context, policy *RetryPolicy) error {
	err := policy.Do(ctx, IsTransient, d.attempt)
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
	if d.unknown && errors.Is(err, ErrNoNode) {
		err = nil
	}
	d.unknown = err != nil && (d.unknown && !isAnswer(err) || IsAmbiguous(err))
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
	case errors.Is(err, ErrNoAuth) && !d.unknown:
		return false, nil // it can be deleted all the same, but not be told from a later one
	case err != nil:
		return false, err
	case d.czxid != 0 && (!node.Exists || node.Stat.Czxid != d.czxid):
		d.unknown = false
		return true, nil
	case !node.Exists:
		return false, &Error{Op: jute.OpDelete, Path: d.path, Err: ErrNoNode}
	}
	d.czxid, d.unknown = node.Stat.Czxid, false
	return false, nil
}

// finish goes on until the node is gone.
func (d *deletion) finish(ctx context.Context) {
	err := stubborn.Do(ctx, d.c.worthTrying, d.attempt)
	if err != nil && !errors.Is(err, ErrNoNode) {
		d.c.s.log(slog.LevelWarn, "guaranteed delete has failed", "path", d.path, "err", err)
	}
}
