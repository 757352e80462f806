package subtree

import (
	"context"
	"errors"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/jute"
)

// Restore writes a Reversal with a client. progress may be nil.
func Restore(ctx context.Context, r *treediff.Reversal, c *client.Client, progress func(Progress)) (Report, error) {
	return r.Run(ctx, target{c}, progress)
}

// target is a treediff.Target.
type target struct{ *client.Client }

func (t target) Ensure(ctx context.Context, path string) error {
	return settle.Ensure(ctx, t.Client, path, client.CreateOptions{})
}

func (t target) Grace(ctx context.Context) (context.Context, context.CancelFunc) {
	return grace(ctx, t.Client)
}

func (t target) Multi(ctx context.Context, ops []jute.MultiOp) (failed string, err error) {
	list := make([]client.Op, len(ops))
	for i := range ops {
		switch o := &ops[i]; o.Type {
		case jute.OpDelete:
			list[i] = client.DeleteOp(o.Path, o.Version)
		case jute.OpSetData:
			list[i] = client.SetOp(o.Path, o.Data, o.Version)
		default:
			list[i] = client.CreateOp(o.Path, o.Data, client.CreateOptions{Mode: o.Mode, ACL: o.ACL, TTL: time.Duration(o.TTL) * time.Millisecond})
		}
	}
	_, err = t.Client.Multi(ctx, list...)
	if m, ok := errors.AsType[*client.MultiError](err); ok {
		failed = m.Path
	}
	return failed, err
}

func (t target) SetACL(ctx context.Context, path string, acl []jute.ACL, aversion int32) error {
	_, err := t.Client.SetACL(ctx, path, acl, aversion)
	return err
}

func (t target) Ambiguous(err error) bool { return client.IsAmbiguous(err) }
