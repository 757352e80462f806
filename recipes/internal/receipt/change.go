package receipt

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Done is what is known of a change that was done.
type Done struct {
	// Results are those of the operations. They are nil if the reply was lost.
	Results []client.OpResult
	// Receipt is the receipt's Stat: its Mzxid and Mtime are those of the change, and
	// zero in the reply of a server that doesn't tell.
	Receipt client.Stat
}

// change is a Do under way.
type change struct {
	b   *Book
	c   *client.Client // for the receipt's session
	r   *receipt
	ops []client.Op
	// doubt is the error of an attempt that may have been done, or nil.
	doubt error
}

// op is the receipt's part in a change: the first one makes the node.
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
		at := failed(err)
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

// used reports whether the receipt's operation failed, with err, since the receipt is
// not as it was left: by an attempt that was done, or by somebody else.
func (ch *change) used(err error) bool {
	if ch.r.changes == 0 {
		return errors.Is(err, client.ErrNodeExists)
	}
	return errors.Is(err, client.ErrBadVersion) || errors.Is(err, client.ErrNoNode)
}

// mend does something about that the receipt's operation failed with err.
func (ch *change) mend(ctx context.Context, err error) error {
	if ch.b.o.Missing == nil || !errors.Is(err, client.ErrNoNode) {
		return ch.inDoubt(err)
	}
	if err := ch.b.o.Missing(ctx); err != nil {
		return ch.inDoubt(line.Settled(err, nil)) // what that left undone changes nothing
	}
	return nil
}

// look reads the receipt: ok is that the change was done. If not it may still be on its
// way, or known to other servers only: then it is found when it is tried again.
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

// errDeleted is why the outcome of a change can't be known.
var errDeleted = errors.New("somebody has deleted the receipt")

// inDoubt returns err, with which a change ends. It is ambiguous if an attempt may have
// been done.
func (ch *change) inDoubt(err error) error {
	if ch.doubt == nil {
		return ofCaller(err)
	}
	return line.InDoubt(ch.doubt, ofCaller(err))
}

// failed returns which operation of a multi failed, or -1 if it was none.
func failed(err error) int {
	if m, ok := errors.AsType[*client.MultiError](err); ok {
		return m.Index
	}
	return -1
}

// ofCaller returns the error of a multi as the caller knows it, who doesn't count the
// receipt. If that is what failed there is no client.MultiError in it.
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
