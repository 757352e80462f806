package idempotent

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// rounds is how often a request is asked for again because the connection broke, or
// somebody came between. While there is no connection the client waits for it.
const rounds = 20

// doing is a request under way. However often it is sent, the marker, which is
// the first of its operations, lets it be done once.
type doing struct {
	r      *Requests
	marker string
	tag    string // tells the marker of this call from those of others
	ops    []client.Op
	// doubt is the error of a try that may have been done, or nil. It is over when a
	// later one finds that there is no marker.
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
		switch failed := failedOp(err); {
		case failed == 0 && errors.Is(err, client.ErrNodeExists):
			return d.found(ctx)
		case failed == 0 && errors.Is(err, client.ErrNoNode) && round < rounds:
			d.doubt = nil
			err = line.Settled(settle.Ensure(ctx, d.r.c, d.r.path, client.CreateOptions{Mode: client.Container, ACL: d.r.o.ACL}), nil)
			if err != nil && !d.again(ctx, err) {
				return Outcome{}, err
			}
		case failed > 0: // the marker could have been made: nothing is in doubt
			return Outcome{}, without(err)
		case failed == 0 || round == rounds || !d.again(ctx, err):
			return Outcome{}, d.error(err)
		}
	}
}

// again reports whether to go on after err: the connection is lost, or there is a new
// session.
func (d *doing) again(ctx context.Context, err error) bool {
	if client.IsAmbiguous(err) {
		d.doubt = err
	}
	worth := client.IsAmbiguous(err) || errors.Is(err, client.ErrSessionExpired)
	return worth && ctx.Err() == nil && d.r.c.WaitConnected(ctx) == nil
}

// error returns err, which is ambiguous if any try is in doubt.
func (d *doing) error(err error) error {
	if d.doubt != nil && !client.IsAmbiguous(err) {
		return line.InDoubt(d.doubt, err)
	}
	return err
}

// found tells whose the marker is that there is.
func (d *doing) found(ctx context.Context) (Outcome, error) {
	node, err := d.r.c.Get(ctx, d.marker)
	switch {
	case err == nil:
		return outcome(string(node.Data) != d.tag, node.Stat), nil
	case d.doubt == nil: // then it can't be ours: that it was there is enough
		return outcome(true, node.Stat), nil
	}
	return Outcome{}, d.error(err)
}

// failedOp returns which operation of a multi has failed, or -1 if it was the whole.
func failedOp(err error) int {
	if failed, ok := errors.AsType[*client.MultiError](err); ok {
		return failed.Index
	}
	return -1
}

// without returns err with the operation's index as the caller counts, who knows of no
// marker.
func without(err error) error {
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
