package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Outcome is what became of a contender that was asked to release.
type Outcome int

const (
	// Undecided is the outcome if there is an error.
	Undecided Outcome = iota
	// Released means that the contender released, whether or not because it was asked, or
	// that its session ended.
	Released
	// Refused means that the contender refused to release.
	Refused
	// Forced means that Revoke or Break deleted the node.
	Forced
)

// String returns the name in lower case.
func (o Outcome) String() string {
	if o < Undecided || o > Forced {
		return fmt.Sprintf("Outcome(%d)", int(o))
	}
	return [...]string{"undecided", "released", "refused", "forced"}[o]
}

// Revocation is what RWOptions.Audit is called with.
type Revocation struct {
	Contender hold.Contender
	Outcome   Outcome
	Err       error
}

// NoForce as the grace period of Revoke means that nothing is deleted.
const NoForce time.Duration = -1

// Revoke asks a contender to release the lock, or its place in the line, and waits until it
// has. If it has not after the grace period its node is deleted, whether or not it has
// refused: see Break. With NoForce the contender decides: Revoke returns when it has
// refused. If it never answers, as contenders without an OnRevoke or that wait in the line
// do not, Revoke returns when ctx ends.
//
// The node that is deleted is the contender's and no other, as names of nodes are never
// used again. Its data are overwritten by the request until it is refused.
func (l *rw) Revoke(ctx context.Context, who hold.Contender, grace time.Duration) (Outcome, error) {
	out, err := Undecided, l.ours(who)
	if err == nil {
		out, err = l.revoke(ctx, who, grace)
	}
	return out, l.audit(ctx, who, out, err)
}

// Break takes the lock, or the place in the line, from one of Contenders: see hold.Break. A
// contender that waits notices when it would be its turn.
func (l *rw) Break(ctx context.Context, who hold.Contender) (hold.Contender, error) {
	out, err := Undecided, l.ours(who)
	var broken hold.Contender
	if err == nil {
		broken, out, err = l.force(ctx, who)
	}
	if err = l.audit(ctx, who, out, err); err == nil && out == Released {
		err = fmt.Errorf("break %s: %w", who.Path, client.ErrNoNode)
	}
	return broken, err
}

// ours returns an error unless the contender is one of this lock.
func (l *rw) ours(who hold.Contender) error { return oneOf(who, l.line) }

// oneOf returns an error unless the contender has a place in one of the lines.
func oneOf(who hold.Contender, lines ...*line.Line) error {
	name := line.Base(who.Path)
	for _, l := range lines {
		if _, ok := l.Layout.Parse(name); ok && line.Join(l.Path, name) == who.Path {
			return nil
		}
	}
	return fmt.Errorf("%w: %q is no contender of %s", client.ErrBadArguments, who.Path, lines[0].Path)
}

// audit reports what has become of a contender, and returns err with its path.
func (l *rw) audit(ctx context.Context, who hold.Contender, out Outcome, err error) error {
	if err != nil {
		out, err = Undecided, fmt.Errorf("revoke %s: %w", who.Path, line.Why(ctx, err))
	}
	if l.o.Audit != nil {
		l.o.Audit(Revocation{who, out, err})
	}
	return err
}

func (l *rw) revoke(ctx context.Context, who hold.Contender, grace time.Duration) (Outcome, error) {
	if grace < 0 {
		return l.ask(ctx, who.Path, true)
	}
	patient, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	out, err := l.ask(patient, who.Path, false)
	if err != nil && patient.Err() != nil && ctx.Err() == nil {
		_, out, err = l.force(ctx, who)
	}
	return out, err
}

// ask writes the request, and waits until the node is deleted or, if refusal matters, the
// request has been refused.
func (l *rw) ask(ctx context.Context, path string, refusal bool) (Outcome, error) {
	c := l.line.Client.Steady()
	if err := l.request(ctx, path); err != nil {
		return releasedIfDeleted(err)
	}
	for {
		node, err := c.GetW(ctx, path)
		if err != nil {
			return releasedIfDeleted(err)
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
func (l *rw) request(ctx context.Context, path string) error {
	c := l.line.Client.Steady()
	for {
		node, err := c.Get(ctx, path)
		if err != nil || isRequest(node.Data) {
			return err
		}
		_, err = settle.Set(ctx, c, path, []byte(l.o.Request), node.Stat.Version)
		if !errors.Is(err, client.ErrBadVersion) {
			return err
		}
	}
}

func releasedIfDeleted(err error) (Outcome, error) {
	if errors.Is(err, client.ErrNoNode) {
		return Released, nil
	}
	return Undecided, err
}

// force deletes the node, and after it the grant, if there is one: without the node there
// cannot be a new grant. The outcome is Released if the node had disappeared by itself.
func (l *rw) force(ctx context.Context, who hold.Contender) (hold.Contender, Outcome, error) {
	c := l.line.Client.Steady()
	node, err := c.Get(ctx, who.Path)
	if err == nil {
		err = settle.Delete(ctx, c, who.Path, client.AnyVersion, settle.DeleteOptions{})
	}
	out := Forced
	if errors.Is(err, client.ErrNoNode) {
		out, err = Released, nil
	}
	if grant := l.grantOf(who.Path); err == nil && grant != "" {
		err = settle.Delete(ctx, c, grant, client.AnyVersion, settle.DeleteOptions{})
		if errors.Is(err, client.ErrNoNode) {
			err = nil
		}
	}
	who = who.With(node)
	hideRequest(&who)
	return who, out, err
}
