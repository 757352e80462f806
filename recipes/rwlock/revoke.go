package rwlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Outcome is how a contender came to lose its node, or not.
type Outcome int

const (
	// Undecided is the outcome if there is an error.
	Undecided Outcome = iota
	// Released: the contender gave it up, with or without being asked, or its session
	// ended.
	Released
	// Refused: the contender has refused to.
	Refused
	// Forced: the node was deleted by who revoked.
	Forced
)

// String returns the name in lower case.
func (o Outcome) String() string {
	if o < Undecided || o > Forced {
		return fmt.Sprintf("Outcome(%d)", int(o))
	}
	return [...]string{"undecided", "released", "refused", "forced"}[o]
}

// Revocation is what Options.Audit is told.
type Revocation struct {
	Contender Contender
	Outcome   Outcome
	Err       error
}

// NoForce as the grace time of Revoke is for asking only.
const NoForce time.Duration = -1

// Revoke asks a contender to give up the lock, or its place in the line, and waits until
// it has. If it has not after the grace time its node is deleted, whether or not it has
// refused: see Break. With NoForce it is left to the contender. Then Revoke returns when
// it has refused, and if it does not answer, as those without an OnRevoke or that wait in
// the line don't, when ctx ends.
//
// The node that is deleted is the contender's and no other: names of nodes are never used
// again. Its data are overwritten by the request, until it is refused.
func (b *base) Revoke(ctx context.Context, who Contender, grace time.Duration) (Outcome, error) {
	out, err := Undecided, b.ours(who)
	if err == nil {
		out, err = b.revoke(ctx, who, grace)
	}
	return out, b.audit(ctx, who, out, err)
}

// audit tells of what has become of a contender, and says what an error is about.
func (b *base) audit(ctx context.Context, who Contender, out Outcome, err error) error {
	if err != nil {
		out, err = Undecided, fmt.Errorf("revoke %s: %w", who.Path, line.Why(ctx, err))
	}
	if b.o.Audit != nil {
		b.o.Audit(Revocation{who, out, err})
	}
	return err
}

func (b *base) revoke(ctx context.Context, who Contender, grace time.Duration) (Outcome, error) {
	if grace < 0 {
		return b.ask(ctx, who.Path, true)
	}
	patient, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	out, err := b.ask(patient, who.Path, false)
	if err != nil && patient.Err() != nil && ctx.Err() == nil {
		_, out, err = b.force(ctx, who)
	}
	return out, err
}

// ask writes the request, and waits until the node has gone or, if that counts, the
// request has been refused.
func (b *base) ask(ctx context.Context, path string, refusal bool) (Outcome, error) {
	c := b.line.Client.Steady()
	if err := b.request(ctx, path); err != nil {
		return releasedIfGone(err)
	}
	for {
		node, err := c.GetW(ctx, path)
		if err != nil {
			return releasedIfGone(err)
		}
		if refusal && !isRequest(node.Data) {
			line.DropWatch(ctx, node.Watch)
			return Refused, nil
		}
		e, err := line.Next(ctx, node.Watch)
		if err != nil {
			return Undecided, err
		}
		if e.Type == client.EventDeleted {
			return Released, nil
		}
	}
}

// request writes the request, unless there is one.
func (b *base) request(ctx context.Context, path string) error {
	c := b.line.Client.Steady()
	for {
		node, err := c.Get(ctx, path)
		if err != nil || isRequest(node.Data) {
			return err
		}
		_, err = settle.Set(ctx, c, path, []byte(b.o.Request), node.Stat.Version)
		if !errors.Is(err, client.ErrBadVersion) {
			return err
		}
	}
}

func releasedIfGone(err error) (Outcome, error) {
	if errors.Is(err, client.ErrNoNode) {
		return Released, nil
	}
	return Undecided, err
}

// force deletes the node, and then the grant, if there is one: behind the place, as
// nobody is granted anything without that. It is Released if the node had gone by itself.
func (b *base) force(ctx context.Context, who Contender) (Contender, Outcome, error) {
	c := b.line.Client.Steady()
	node, err := c.Get(ctx, who.Path)
	if err == nil {
		err = settle.Delete(ctx, c, who.Path, client.AnyVersion, settle.DeleteOptions{})
	}
	out := Forced
	if errors.Is(err, client.ErrNoNode) {
		out, err = Released, nil
	}
	if grant := b.grant(who.Path); err == nil && grant != "" {
		err = settle.Delete(ctx, c, grant, client.AnyVersion, settle.DeleteOptions{})
		if errors.Is(err, client.ErrNoNode) {
			err = nil
		}
	}
	return who.with(node.Data, node.Stat), out, err
}
