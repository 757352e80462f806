package queue

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// claim is an attempt to lease an item, in one multi. It sets the item's data to what it is,
// so that the version counts the claims and tells later ones from this, and creates the
// ephemeral node of the claim, with an ID in it.
type claim struct {
	c       *client.Client // bound to a session
	entry   string
	taken   string
	version int32 // of the item, before the claim
	data    []byte
	id      string
}

// claim leases an item, or returns nil if another consumer was quicker.
func (q *Leased) claim(ctx context.Context, e *entry) (*Lease, error) {
	node, err := e.read(ctx, q.c, q.dir)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	session := q.c.Session().ID()
	cl := &claim{
		c:     q.c.InSession(session),
		entry: line.Join(q.dir, e.name), taken: line.Join(q.taken, e.name),
		version: node.Stat.Version, data: node.Data, id: line.NewID(),
	}
	if most := q.o.MaxAttempts; most > 0 && int(cl.version) >= most {
		return nil, q.bury(ctx, cl)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	longer, cancel := grace(ctx, cl.c)
	defer cancel()
	token, err := cl.make(longer, q.o.ACL)
	switch {
	case client.IsAmbiguous(err):
		q.undo.Go(func() { cl.withdraw(q.life.ctx) })
		return nil, err
	case errors.Is(err, errNoDirectory):
		if err := q.ensure(ctx); err != nil {
			return nil, err
		}
		return q.claim(ctx, e)
	case token == 0 || err != nil:
		return nil, err
	}
	return q.lease(ctx, cl, token), nil
}

// errNoDirectory means that the parent of the claim's node does not exist.
var errNoDirectory = errors.New("there is no directory for claims")

// make returns the zxid of the claim, or 0 if another consumer has the item.
func (cl *claim) make(ctx context.Context, acl []client.ACL) (client.Zxid, error) {
	unsure := false
	for {
		results, err := cl.c.Multi(ctx,
			client.SetOp(cl.entry, cl.data, cl.version),
			client.CreateOp(cl.taken, []byte(cl.id), client.CreateOptions{Mode: client.Ephemeral, ACL: acl}),
			client.SetOp(cl.taken, []byte(cl.id), claimed-1))
		switch at := line.FailedOp(err); {
		case err == nil:
			return results[0].Stat.Mzxid, nil
		case client.IsAmbiguous(err):
			unsure = true
			token, lookErr := cl.look(ctx)
			if token != 0 {
				return token, nil
			}
			if lookErr != nil {
				return 0, err
			}
		case at >= 0 && unsure:
			return cl.look(ctx) // an earlier attempt of this claim may have been quicker
		case at == 0 && (errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrBadVersion)), errors.Is(err, client.ErrNodeExists):
			return 0, nil
		case at == 1 && errors.Is(err, client.ErrNoNode):
			return 0, errNoDirectory
		default:
			return 0, err
		}
	}
}

// look returns the zxid of the claim if it was made.
func (cl *claim) look(ctx context.Context) (client.Zxid, error) {
	node, err := cl.c.Get(ctx, cl.taken)
	if errors.Is(err, client.ErrNoNode) || err == nil && string(node.Data) != cl.id {
		return 0, nil
	}
	return node.Stat.Mzxid, err
}

// withdraw deletes the claim, which may have been made or may be made later.
func (cl *claim) withdraw(ctx context.Context) {
	ctx, cancel := grace(ctx, cl.c)
	defer cancel()
	for ctx.Err() == nil {
		err := cl.c.Sync(ctx, cl.taken)
		if err == nil {
			var token client.Zxid
			if token, err = cl.look(ctx); err == nil && token == 0 {
				return
			}
		}
		if err == nil {
			_, err = cl.c.Multi(ctx, client.CheckOp(cl.entry, cl.version+1), client.DeleteOp(cl.taken, claimed))
		}
		if err == nil || !client.IsRetryable(err) && !client.IsAmbiguous(err) {
			return // the claim is withdrawn, or has ended with its session
		}
	}
}

// lease returns the lease of a claim that was made.
func (q *Leased) lease(ctx context.Context, cl *claim, token client.Zxid) *Lease {
	l := &Lease{
		q: q, entry: cl.entry, taken: cl.taken, version: cl.version + 1,
		data: cl.data, token: token, c: cl.c, turn: newPermit(),
	}
	l.hold = line.NewHold(context.WithoutCancel(ctx), cl.c, cl.taken, line.HoldOptions{})
	l.ctx, l.cancel = context.WithCancelCause(line.Follow(l.hold.Context(), ctx))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leases[l] = true
	return l
}

// bury moves an item that was handed out too often to the dead ones.
func (q *Leased) bury(ctx context.Context, cl *claim) error {
	stem := line.Base(cl.entry)[:len("entry-100-")]
	for round := 1; ; round++ {
		err := q.once(ctx,
			client.DeleteOp(cl.entry, cl.version),
			client.CreateOp(line.Join(q.dead, stem), cl.data, client.CreateOptions{Mode: client.PersistentSequential, ACL: q.o.ACL}))
		switch at := line.FailedOp(err); {
		case at == 0 && (errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrBadVersion)):
			return nil // another consumer has it
		case at == 1 && errors.Is(err, client.ErrNoNode) && round < rounds:
			if err := q.ensureNode(ctx, q.dead); err != nil {
				return err
			}
		default:
			return err
		}
	}
}
