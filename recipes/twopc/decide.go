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

// Await waits until there is a decision, and does nothing for it. client.ErrNoNode if
// there is no transaction, or no more.
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

// Decide watches the votes, decides when they are all there, and returns the decision:
// its own or somebody else's. Commit takes all votes, and that all sites which are
// ephemeral are there when it is recorded; one vote to abort, or one ephemeral site
// that has failed, is enough to abort.
//
// Where the coordinator calls it, and sites call Await, that takes a number of
// messages in proportion to that of sites (seeds.md A36). Where all sites call it (A33)
// it takes the square of that, but none of them is needed by the others.
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

// deciding is a Decide under way. Each watch is nil if it has to be set.
type deciding struct {
	*Transaction
	c   *client.Client
	rec record

	decision *client.Watch
	list     *client.Watch // of the children, if sites are ephemeral
	vote     *client.Watch // of the first site that has not voted

	present map[string]bool // ephemeral sites that have joined
	failed  bool            // one of them is gone
	commits []client.Op     // checks that the first sites have voted to commit, in the order of rec.Sites
}

// step looks at what has changed, and decides or waits for the next change.
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
	if err == nil && !rec.decided() { // a site has gone in between
		d.drop(ctx)
		*d = deciding{Transaction: d.Transaction, c: d.c}
	}
	return rec, err
}

// look finds out which ephemeral sites are there, and whether one has failed: each that
// came or went has counted in the cversion, so one that is gone shows, though nobody
// may have seen it.
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

// count returns what the votes come to, without an Outcome if some are missing.
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
			return Decision{}, nil // the watch on the list will tell
		case errors.Is(err, client.ErrNoNode):
			return d.missing(ctx, site, err)
		case err != nil:
			return Decision{}, err
		case vote == Abort: // by another program, as Vote decides at once
			return Decision{Abort, fmt.Sprintf("site %q has voted so", site)}, nil
		case vote == Commit:
			d.commits = append(d.commits, client.CheckOp(d.site(site), stat.Version))
		case vote != "":
			return Decision{}, fmt.Errorf("%w: the node of site %q has %q, which is no vote", recipes.ErrLayout, site, vote)
		}
	}
	if d.vote != nil {
		return Decision{}, nil
	}
	return Decision{Outcome: Commit}, nil
}

// missing says what it means that a site's node is not there that Begin has made: the
// transaction has ended, or somebody has deleted it.
func (d *deciding) missing(ctx context.Context, site string, err error) (Decision, error) {
	if rec, _, err := d.read(ctx); err != nil || rec.decided() {
		return rec.Decision, err
	}
	return Decision{}, fmt.Errorf("%w: the node of site %q was deleted: %w", recipes.ErrLayout, site, err)
}

// voteOf returns a site's vote. If it has none yet it leaves a watch in d.vote.
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

// wait waits until one of the watches fires, and takes that out.
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
	err := (*fired).Err() // that of the session's end
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
