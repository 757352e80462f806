package twopc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Site is a participant that votes. It may be used from any goroutine.
type Site struct {
	t    *Transaction
	c    *client.Client // for an ephemeral site: in the session of its node only
	name string
	rec  record
	data []byte
}

// Join returns the site with that name. An ephemeral site joins once, and counts as failed
// when the session ends. The error wraps client.ErrNodeExists if an ephemeral site has
// already joined, and client.ErrNoNode if the transaction has not begun or has ended.
func (t *Transaction) Join(ctx context.Context, name string) (*Site, error) {
	s, err := t.join(ctx, name)
	if err != nil {
		return nil, t.wrap(ctx, fmt.Sprintf("join as %q", name), err)
	}
	return s, nil
}

func (t *Transaction) join(ctx context.Context, name string) (*Site, error) {
	s := &Site{t: t, c: t.c, name: name}
	data, _, err := t.get(ctx, t.path)
	if err != nil {
		return nil, err
	}
	s.data = data
	if s.rec, _, err = t.read(ctx); err != nil {
		return nil, err
	}
	if !slices.Contains(s.rec.Sites, name) {
		return nil, fmt.Errorf("%w: it has only the sites %q", client.ErrBadArguments, s.rec.Sites)
	}
	if s.rec.Ephemeral && !s.rec.decided() {
		if s.c, _, err = line.Bind(ctx, t.c); err != nil {
			return nil, err
		}
		_, err = settle.Create(ctx, s.c, t.site(name), nil, settle.CreateOptions{Mode: client.Ephemeral, ACL: t.acl})
	}
	return s, err
}

// Data returns Plan.Data. The caller must not change it.
func (s *Site) Data() []byte { return s.data }

// Vote casts the site's vote, which is final. After Commit the site must wait for the
// decision, and must remain able to make the change, even if it fails meanwhile. Abort
// decides the transaction at once.
//
// It is no error to cast the same vote again, so Vote can be repeated, also by another
// process. The error wraps ErrVoted if the site has cast the other vote, and
// recipes.ErrLost if the site is ephemeral and its node is gone.
func (s *Site) Vote(ctx context.Context, v Outcome) error {
	var err error
	switch {
	case v != Commit && v != Abort:
		err = fmt.Errorf("%w: %q is no vote", client.ErrBadArguments, v)
	case s.rec.Outcome == Commit && v == Abort:
		err = fmt.Errorf("%w: the transaction is committed", ErrVoted) // so this site has voted to commit
	case s.rec.decided():
		// The vote has no effect.
	case v == Commit:
		err = s.commit(ctx)
	default:
		err = s.abort(ctx)
	}
	return s.t.wrap(ctx, fmt.Sprintf("vote of %q in", s.name), err)
}

func (s *Site) commit(ctx context.Context) error {
	_, err := settle.Set(ctx, s.c, s.t.site(s.name), []byte(Commit), 0)
	return s.voted(ctx, Commit, err)
}

// abort votes and decides in one multi.
func (s *Site) abort(ctx context.Context) error {
	rec := s.rec
	rec.Decision = Decision{Abort, fmt.Sprintf("site %q has voted to abort", s.name)}
	for {
		_, err := s.c.Steady().Multi(ctx,
			client.SetOp(s.t.site(s.name), []byte(Abort), 0),
			client.SetOp(s.t.node(decisionNode), rec.encode(), 0))
		failed, _ := errors.AsType[*client.MultiError](err)
		switch {
		case failed != nil && failed.Index == 1 && errors.Is(err, client.ErrBadVersion):
			return nil // it was aborted already: it cannot be committed without this vote
		case !client.IsAmbiguous(err) || ctx.Err() != nil:
			return s.voted(ctx, Abort, err)
		}
	}
}

// voted returns the result of a vote that ended with err: nil if the site has that vote.
func (s *Site) voted(ctx context.Context, v Outcome, err error) error {
	switch {
	case s.rec.Ephemeral && errors.Is(err, client.ErrNoNode):
		return fmt.Errorf("%w: %w", recipes.ErrLost, err)
	case !errors.Is(err, client.ErrBadVersion):
		return err
	}
	node, getErr := s.c.Steady().Get(ctx, s.t.site(s.name))
	switch {
	case getErr != nil:
		return getErr
	case string(node.Data) == string(v):
		return nil
	}
	return fmt.Errorf("%w: %s", ErrVoted, node.Data)
}
