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

// Place is one's own place in a line.
type Place struct {
	line *Line // in the place's session: what is of another one is not about it
	path string
	stat client.Stat // when it was made
}

// Path returns the path of the node.
func (p *Place) Path() string { return p.path }

// Token returns a number that is larger than those of all places that were ever made
// before, at any path: the zxid of its creation. It is what one fences with.
func (p *Place) Token() client.Zxid { return p.stat.Czxid }

// Rule says for whom a place has to wait: it returns the index of one of the entries,
// or -1 if it is the turn of the own one, entries[own].
type Rule func(entries []Entry, own int) int

// First is the rule that the first in the line has its turn.
func First(_ []Entry, own int) int { return own - 1 }

// Await waits until it is the place's turn. The error wraps recipes.ErrLost if the
// place is gone. It is left to the caller to leave if Await fails.
//
// It reads the list without a watch, and watches the one place that the rule names
// by reading its data: an exists of a node that has gone meanwhile would leave a
// watch behind.
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

// Try reports whether it is the place's turn, without waiting for it.
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

// gone says why the place is not there.
func (p *Place) gone() error {
	if now, _ := p.line.Client.Session(); now != p.stat.EphemeralOwner {
		return fmt.Errorf("%w: %s: %w", recipes.ErrLost, p.path, client.ErrSessionExpired)
	}
	return fmt.Errorf("%w: %s was deleted", recipes.ErrLost, p.path)
}

// Leave gives the place up. It goes on if ctx has ended, for two seconds at most; if
// that is not enough, or there is no connection, it is seen to in the background.
// There is no error if the place is gone, however that came.
func (p *Place) Leave(ctx context.Context) error {
	return unlessGone(p.end(ctx))
}

// end deletes the node.
func (p *Place) end(ctx context.Context) error {
	if p.line.Layout.Anonymous {
		return endBy(ctx, p.line.Client, p.path, p.deleteMine)
	}
	return end(ctx, p.line.Client, p.path, settle.DeleteOptions{Insist: true, Unique: true})
}

// leaving is how long to wait for servers when ctx has ended.
const leaving = 2 * time.Second

// end has a node of one's own deleted, sooner or later. The error wraps
// recipes.ErrLost if the node was gone before, and is ambiguous if the deletion goes on in
// the background: whether it will find the node is not known.
func end(ctx context.Context, c *client.Client, path string, o settle.DeleteOptions) error {
	return endBy(ctx, c, path, func(ctx context.Context, path string) error {
		return settle.Delete(ctx, c, path, client.AnyVersion, o)
	})
}

// endBy is end by that function.
func endBy(ctx context.Context, c *client.Client, path string, guaranteed func(context.Context, string) error) error {
	if ctx.Err() == nil || c.State().Connected() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), leaving)
		defer cancel()
	}
	err := guaranteed(ctx, path)
	switch {
	case isAny(err, client.ErrNoNode, client.ErrSessionExpired, client.ErrClosed):
		return fmt.Errorf("%w: %s was gone before: %w", recipes.ErrLost, path, err)
	case isAny(err, client.ErrConnectionLoss, context.Canceled, context.DeadlineExceeded):
		return InBackground(path, err)
	case err != nil:
		return fmt.Errorf("give up %s: %w", path, err)
	}
	return nil
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// unlessGone returns err, but nil if what was given up had gone before, or will.
func unlessGone(err error) error {
	if errors.Is(err, recipes.ErrLost) || client.IsAmbiguous(err) {
		return nil
	}
	return err
}
