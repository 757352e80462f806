package twopc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Await waits until another program has decided. The error wraps client.ErrNoNode if the
// transaction has not begun or has ended.
func (t *Transaction) Await(ctx context.Context) (Decision, error) {
	for {
		rec, w, err := t.readW(ctx)
		if w != nil && !rec.decided() && err == nil {
			_, err = line.Next(ctx, w)
		} else if w != nil {
			line.DropWatch(ctx, w)
		}
		if err != nil || rec.decided() {
			return rec.Decision, t.wrap(ctx, "await", err)
		}
	}
}

// Decide watches the votes, decides when it can, and returns the decision: its own or that
// of another program. It commits if all sites have voted to commit and all ephemeral sites
// are alive when the decision is recorded. It aborts if one site has voted to abort, or one
// ephemeral site has failed.
//
// If the coordinator calls Decide and the sites call Await, the number of messages is in
// proportion to the number of sites. If all sites call Decide, it is in proportion to the
// square of that, but no site depends on another one.
func (t *Transaction) Decide(ctx context.Context) (Decision, error) {
	d := &deciding{Transaction: t, c: t.c.Steady()}
	defer func() { d.drop(ctx) }()
	for {
		rec, err := d.step(ctx)
		if err != nil || rec.decided() {
			return rec.Decision, t.wrap(ctx, "decide", err)
		}
	}
}

// deciding is a Decide under way. A watch is nil if it has to be set.
type deciding struct {
	*Transaction
	c   *client.Client
	rec record

	decision *client.Watch
	list     *client.Watch // of the children, if sites are ephemeral
	vote     *client.Watch // of the first site that has not voted

	present map[string]bool // ephemeral sites that have joined
	failed  bool            // an ephemeral site that has joined is gone
	commits []client.Op     // checks that the first sites have voted to commit, in the order of rec.Sites
}

// step reads what has changed, and then decides or waits for the next change.
func (d *deciding) step(ctx context.Context) (rec record, err error) {
	if d.decision == nil {
		d.rec, d.decision, err = d.readW(ctx)
		if err != nil || d.rec.decided() {
			return d.rec, err
		}
	}
	if d.rec.Ephemeral && d.list == nil {
		if err := d.look(ctx); err != nil {
			return rec, err
		}
	}
	verdict, err := d.count(ctx)
	switch {
	case err != nil:
		return rec, err
	case verdict.Outcome == "":
		return rec, d.wait(ctx)
	case verdict.Outcome == Commit:
		rec, err = d.settle(ctx, d.rec, verdict, d.commits...)
	default:
		rec, err = d.settle(ctx, d.rec, verdict)
	}
	if err == nil && !rec.decided() { // a site's node was deleted meanwhile
		d.drop(ctx)
		*d = deciding{Transaction: d.Transaction, c: d.c}
	}
	return rec, err
}

// look finds out which ephemeral sites have joined, and whether one has failed. The node's
// cversion counts each creation and deletion of a child, so it shows a failure even if no
// program has seen the site's node.
func (d *deciding) look(ctx context.Context) error {
	list, err := d.c.ChildrenW(ctx, d.path)
	if err != nil {
		return err
	}
	d.list = list.Watch
	if err := d.checkNames(d.rec, list.Names); err != nil {
		return err
	}
	d.present = map[string]bool{}
	for _, name := range list.Names {
		if site, ok := strings.CutPrefix(name, sitePrefix); ok {
			d.present[site] = true
		}
	}
	const others = 1 // the decision's node
	d.failed = int(list.Stat.Cversion) > len(d.present)+others
	return nil
}

// count returns the decision that follows from the votes, without an Outcome if votes are
// missing.
func (d *deciding) count(ctx context.Context) (Decision, error) {
	if d.failed {
		return Decision{Abort, "a site has failed"}, nil
	}
	for d.vote == nil && len(d.commits) < len(d.rec.Sites) {
		site := d.rec.Sites[len(d.commits)]
		if d.rec.Ephemeral && !d.present[site] {
			return Decision{}, nil
		}
		vote, stat, err := d.voteOf(ctx, site)
		switch {
		case errors.Is(err, client.ErrNoNode) && d.rec.Ephemeral:
			return Decision{}, nil // the watch on the list fires
		case errors.Is(err, client.ErrNoNode):
			return d.missing(ctx, site, err)
		case err != nil:
			return Decision{}, err
		case vote == Abort: // by a program without this package: Vote would have decided
			return Decision{Abort, fmt.Sprintf("site %q has voted to abort", site)}, nil
		case vote == Commit:
			d.commits = append(d.commits, client.CheckOp(d.site(site), stat.Version))
		case vote != "":
			return Decision{}, fmt.Errorf("%w: the node of site %q contains %q, which is not a vote", recipes.ErrLayout, site, vote)
		}
	}
	if d.vote != nil {
		return Decision{}, nil
	}
	return Decision{Outcome: Commit}, nil
}

// missing returns the decision, or an error, when a node that Begin created does not exist:
// the transaction has been decided and ended, or somebody has deleted the node.
func (d *deciding) missing(ctx context.Context, site string, err error) (Decision, error) {
	if rec, _, err := d.read(ctx); err != nil || rec.decided() {
		return rec.Decision, err
	}
	return Decision{}, fmt.Errorf("%w: the node of site %q was deleted: %w", recipes.ErrLayout, site, err)
}

// voteOf returns a site's vote. If there is none yet, it sets the watch d.vote.
func (d *deciding) voteOf(ctx context.Context, site string) (Outcome, client.Stat, error) {
	node, err := d.c.Get(ctx, d.site(site))
	if err != nil || len(node.Data) > 0 {
		return Outcome(node.Data), node.Stat, err
	}
	node, err = d.c.GetW(ctx, d.site(site))
	if err != nil {
		return "", node.Stat, err
	}
	if len(node.Data) > 0 {
		line.DropWatch(ctx, node.Watch)
		return Outcome(node.Data), node.Stat, nil
	}
	d.vote = node.Watch
	return "", node.Stat, nil
}

// wait waits until one of the watches fires, and sets it to nil.
func (d *deciding) wait(ctx context.Context) error {
	var fired **client.Watch
	select {
	case <-d.decision.Events():
		fired = &d.decision
	case <-events(d.list):
		fired = &d.list
	case <-events(d.vote):
		fired = &d.vote
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := (*fired).Err() // not nil if the session has ended
	*fired = nil
	return err
}

func events(w *client.Watch) <-chan client.Event {
	if w == nil {
		return nil
	}
	return w.Events()
}

// drop closes the watches.
func (d *deciding) drop(ctx context.Context) {
	for _, w := range []*client.Watch{d.decision, d.list, d.vote} {
		if w != nil {
			line.DropWatch(ctx, w)
		}
	}
}
