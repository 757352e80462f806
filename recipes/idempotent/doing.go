package idempotent

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// rounds is how often a request is sent when the connection breaks, or when the container
// of the markers is missing. Before each attempt the client waits for a connection.
const rounds = 20

// doing is a Do under way. Its first operation creates the marker, so the request is done
// at most once, however often it is sent.
type doing struct {
	r      *Requests
	marker string
	tag    string // the data of this call's marker
	ops    []client.Op
	// doubt is the error of an attempt that may have been done, or nil. It is nil again
	// when a later attempt finds that there is no marker.
	doubt error
}

func (d *doing) settle(ctx context.Context) (Outcome, error) {
	for round := 1; ; round++ {
		results, err := d.r.c.Multi(ctx, d.ops...)
		if err == nil {
			o := outcome(false, results[0].Stat)
			o.Results = results[1:]
			return o, nil
		}
		switch failed := line.FailedOp(err); {
		case failed == 0 && errors.Is(err, client.ErrNodeExists):
			return d.found(ctx)
		case failed == 0 && errors.Is(err, client.ErrNoNode) && round < rounds:
			d.doubt = nil
			err = line.Settled(settle.Ensure(ctx, d.r.c, d.r.path, client.CreateOptions{Mode: client.Container, ACL: d.r.o.ACL}), nil)
			if err != nil && !d.again(ctx, err) {
				return Outcome{}, err
			}
		case failed > 0: // there is no marker, so no attempt was done
			return Outcome{}, withoutMarker(err)
		case failed == 0 || round == rounds || !d.again(ctx, err):
			return Outcome{}, d.error(err)
		}
	}
}

// again reports whether to try again after err: the connection broke, or the session has
// ended, and there is a connection again.
func (d *doing) again(ctx context.Context, err error) bool {
	if client.IsAmbiguous(err) {
		d.doubt = err
	}
	passing := client.IsAmbiguous(err) || errors.Is(err, client.ErrSessionExpired)
	return passing && ctx.Err() == nil && d.r.c.WaitConnected(ctx) == nil
}

// error returns err, made ambiguous if an attempt is in doubt.
func (d *doing) error(err error) error {
	if d.doubt != nil && !client.IsAmbiguous(err) {
		return line.InDoubt(d.doubt, err)
	}
	return err
}

// found returns the outcome when there is a marker: of this call, or of an earlier one.
func (d *doing) found(ctx context.Context) (Outcome, error) {
	node, err := d.r.c.Get(ctx, d.marker)
	switch {
	case err == nil:
		return outcome(string(node.Data) != d.tag, node.Stat), nil
	case d.doubt == nil: // no attempt of this call can have made the marker
		return outcome(true, node.Stat), nil
	}
	return Outcome{}, d.error(err)
}

// withoutMarker returns err with the operation's index in the caller's operations, which do
// not include the marker.
func withoutMarker(err error) error {
	whole, ok := errors.AsType[*client.Error](err)
	failed, ok2 := errors.AsType[*client.MultiError](err)
	if !ok || !ok2 {
		return err
	}
	own, op := *whole, *failed
	op.Index--
	own.Cause = &op
	return &own
}
