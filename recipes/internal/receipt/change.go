package receipt

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Done is what is known of a change that was made.
type Done struct {
	// Results are those of the operations. They are nil if the reply was lost.
	Results []client.OpResult
	// Receipt is the receipt's Stat: its Mzxid and Mtime are those of the change, or zero if
	// the server does not return them.
	Receipt client.Stat
}

// change is a Do under way.
type change struct {
	b   *Book
	c   *client.Client // bound to the receipt's session
	r   *receipt
	ops []client.Op
	// doubt is the error of an attempt that may have been made, or nil.
	doubt error
}

// op returns the operation on the receipt: the first change creates it.
func (ch *change) op() client.Op {
	if ch.r.changes == 0 {
		return client.CreateOp(ch.r.path, nil, client.CreateOptions{Mode: client.Ephemeral, ACL: ch.b.o.ACL})
	}
	return client.SetOp(ch.r.path, nil, ch.r.changes-1)
}

func (ch *change) settle(ctx context.Context) (Done, error) {
	for round := 1; ; round++ {
		results, err := ch.c.Multi(ctx, append([]client.Op{ch.op()}, ch.ops...)...)
		if err == nil {
			ch.r.changes++
			return Done{results[1:], results[0].Stat}, nil
		}
		at := line.FailedOp(err)
		switch {
		case client.IsAmbiguous(err):
			ch.doubt = err
		case at > 0:
			return Done{}, ofCaller(err)
		case at < 0 || round == rounds:
			return Done{}, ch.inDoubt(err)
		case ch.used(err) && ch.doubt == nil:
			ch.r = ch.b.fresh(ch.r.session) // somebody has deleted the receipt, or changed it
			continue
		case !ch.used(err):
			if err := ch.mend(ctx, err); err != nil {
				return Done{}, err
			}
			continue
		}
		if done, ok, err := ch.look(ctx); ok || err != nil {
			return done, err
		}
		if round == rounds {
			return Done{}, ch.inDoubt(err)
		}
	}
}

// used reports whether the operation on the receipt failed with err because the receipt was
// changed, by an attempt that was made or by another client.
func (ch *change) used(err error) bool {
	if ch.r.changes == 0 {
		return errors.Is(err, client.ErrNodeExists)
	}
	return errors.Is(err, client.ErrBadVersion) || errors.Is(err, client.ErrNoNode)
}

// mend creates what is missing above the receipt, if its operation failed with err for that.
func (ch *change) mend(ctx context.Context, err error) error {
	if ch.b.o.Missing == nil || !errors.Is(err, client.ErrNoNode) {
		return ch.inDoubt(err)
	}
	if err := ch.b.o.Missing(ctx); err != nil {
		return ch.inDoubt(line.Settled(err, nil)) // if in doubt, the change itself is not
	}
	return nil
}

// look reads the receipt, and returns ok if the change was made. If not, it may be under way,
// or unknown to this server: the next attempt finds out.
func (ch *change) look(ctx context.Context) (done Done, ok bool, err error) {
	found, err := ch.c.Exists(ctx, ch.r.path)
	switch {
	case err != nil:
		return Done{}, false, ch.inDoubt(err)
	case found.Exists && found.Stat.Version == ch.r.changes:
		ch.r.changes++
		return Done{Receipt: found.Stat}, true, nil
	case !found.Exists && ch.r.changes > 0:
		return Done{}, false, ch.inDoubt(errDeleted)
	}
	return Done{}, false, nil
}

// errDeleted is the reason why the outcome of a change is unknown.
var errDeleted = errors.New("somebody has deleted the receipt")

// inDoubt returns the error with which a change ends: err, which is ambiguous if an attempt
// may have been made.
func (ch *change) inDoubt(err error) error {
	if ch.doubt == nil {
		return ofCaller(err)
	}
	return line.InDoubt(ch.doubt, ofCaller(err))
}

// ofCaller returns the error of a multi without the receipt: indices are those of the
// caller's operations. If the receipt failed, there is no client.MultiError in it.
func ofCaller(err error) error {
	whole, ok := errors.AsType[*client.Error](err)
	op, ok2 := errors.AsType[*client.MultiError](err)
	if !ok || !ok2 {
		return err
	}
	own := *whole
	if op.Index == 0 {
		own.Op, own.Path, own.Err, own.Cause = op.Op, op.Path, op.Err, nil
		return &own
	}
	shifted := *op
	shifted.Index--
	own.Cause = &shifted
	return &own
}
