package line

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
)

// Place is the client's own place in a line.
type Place struct {
	line *Line // with a client in the place's session
	path string
	stat client.Stat // when it was created
}

// Path returns the path of the node.
func (p *Place) Path() string { return p.path }

// Token returns the zxid at which the place was created, which is larger than those of all
// earlier places. It serves as a fencing token.
func (p *Place) Token() client.Zxid { return p.stat.Czxid }

// Session returns the session that the place belongs to.
func (p *Place) Session() client.SessionID { return p.stat.EphemeralOwner }

// Guard returns the operations preceded by a check that the place exists. A multi of them
// takes effect only if it does; otherwise it fails with client.ErrNoNode of the place's path.
// Names of places are unique, so nothing else needs to be checked.
func (p *Place) Guard(ops ...client.Op) []client.Op {
	return append([]client.Op{client.CheckOp(p.path, client.AnyVersion)}, ops...)
}

// Rule returns the index of the entry that entries[own] has to wait for, or -1 if it is its
// turn.
type Rule func(entries []Entry, own int) int

// First is the rule that each place waits for the one before it.
func First(_ []Entry, own int) int { return own - 1 }

// Await waits until it is the place's turn. The error wraps recipes.ErrLost if the place does
// not exist any more. If Await fails the caller must call Leave.
//
// It reads the list without a watch, and watches only the place that the rule returns. It
// does so by reading the data, as an exists would leave a watch if that place was deleted
// meanwhile.
func (p *Place) Await(ctx context.Context, rule Rule) error {
	c := p.line.Client.Steady()
	for {
		blocker, err := p.blocker(ctx, rule)
		if blocker == "" || err != nil {
			return err
		}
		node, err := c.GetW(ctx, Join(p.line.Path, blocker))
		if errors.Is(err, client.ErrNoNode) {
			continue
		}
		if err != nil {
			return Lost(err)
		}
		if _, err := node.Watch.Next(ctx); err != nil {
			DropWatch(ctx, node.Watch)
			return Lost(fmt.Errorf("wait for %s: %w", node.Watch.Path(), err))
		}
	}
}

// Try reports whether it is the place's turn. It does not wait.
func (p *Place) Try(ctx context.Context, rule Rule) (bool, error) {
	blocker, err := p.blocker(ctx, rule)
	return blocker == "" && err == nil, err
}

// blocker returns the name of the node to wait for, or "" for none.
func (p *Place) blocker(ctx context.Context, rule Rule) (string, error) {
	entries, err := p.line.List(ctx)
	if err != nil {
		return "", Lost(err)
	}
	own := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == Base(p.path) })
	if own < 0 {
		return "", p.gone()
	}
	if i := rule(entries, own); i >= 0 {
		return entries[i].Name, nil
	}
	mine, err := p.mine(ctx)
	if err == nil && !mine {
		err = p.gone()
	}
	return "", err
}

// gone returns the error of a place that does not exist any more.
func (p *Place) gone() error {
	if now := p.line.Client.Session().ID(); now != p.stat.EphemeralOwner {
		return fmt.Errorf("%w: %s: %w", recipes.ErrLost, p.path, client.ErrSessionExpired)
	}
	return fmt.Errorf("%w: %s was deleted", recipes.ErrLost, p.path)
}

// Leave deletes the place, even if ctx has ended. It waits at most two seconds for the servers;
// if that is not enough, or there is no connection, the deletion continues in the
// background. It is not an error if the place does not exist any more.
func (p *Place) Leave(ctx context.Context) error {
	return unlessGone(p.end(ctx))
}

// end deletes the node.
func (p *Place) end(ctx context.Context) error {
	if p.line.Layout.Anonymous {
		return EndBy(ctx, p.line.Client, p.path, p.deleteMine)
	}
	return end(ctx, p.line.Client, p.path, settle.DeleteOptions{Insist: true, Unique: true})
}

// Leaving is how long giving something up waits for the servers.
const Leaving = 2 * time.Second

type patience struct{}

// WithPatience returns a context with which giving something up waits for d instead of Leaving. It is for tests, whose machine may be
// busy for longer.
func WithPatience(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, patience{}, d)
}

func leaving(ctx context.Context) time.Duration {
	if d, ok := ctx.Value(patience{}).(time.Duration); ok {
		return d
	}
	return Leaving
}

// end deletes an own node, if need be in the background. The error wraps recipes.ErrLost if
// the node did not exist any more, and is ambiguous if the deletion continues in the
// background, as it is not known whether it will find the node.
func end(ctx context.Context, c *client.Client, path string, o settle.DeleteOptions) error {
	return EndBy(ctx, c, path, func(ctx context.Context) error {
		return settle.Delete(ctx, c, path, client.AnyVersion, o)
	})
}

// EndBy is end with a function that deletes the node, and continues in the background if it
// returns client.ErrConnectionLoss or the error of its context.
func EndBy(ctx context.Context, c *client.Client, path string, remove func(context.Context) error) error {
	if ctx.Err() == nil || c.State().Connected() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), leaving(ctx))
		defer cancel()
	}
	err := remove(ctx)
	switch {
	case isAny(err, client.ErrNoNode, client.ErrSessionExpired, client.ErrClosed):
		return fmt.Errorf("%w: %s was gone before: %w", recipes.ErrLost, path, err)
	case isAny(err, client.ErrConnectionLoss), err != nil && ctx.Err() != nil: // err may be the cause of its end
		return InBackground(path, err)
	case err != nil:
		return fmt.Errorf("give up %s: %w", path, err)
	}
	return nil
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// unlessGone returns err, or nil if the node was deleted before or will be.
func unlessGone(err error) error {
	if errors.Is(err, recipes.ErrLost) || client.IsAmbiguous(err) {
		return nil
	}
	return err
}
