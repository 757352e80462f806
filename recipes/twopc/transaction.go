package twopc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// ErrVoted is that a site has voted otherwise before: a vote is final.
var ErrVoted = errors.New("the site has voted otherwise")

// ErrUndecided is that something can't be done before there is a decision.
var ErrUndecided = errors.New("the transaction is not decided")

// Transaction is what several sites do all or not at all. It may be used from any
// goroutine.
type Transaction struct {
	c    *client.Client
	path string
	acl  []client.ACL
}

// Options are what a Transaction can be told. The zero value is good for most.
type Options struct {
	// ACL is that of new nodes; nil is client.OpenACL. All that take part must be
	// allowed to read, to write and, where sites are ephemeral, to create.
	ACL []client.ACL
}

// Plan says what a transaction is to be.
type Plan struct {
	// Sites are the names of those who vote.
	Sites []string
	// Data is the transaction itself. Leave it nil where the sites get it in another
	// way (seeds.md A35).
	Data []byte
	// Ephemeral has each site make its own node, which goes with its session: a site
	// that fails before the decision is a vote to abort (seeds.md A37). Otherwise
	// Begin makes the nodes, and a site may come back with another session.
	Ephemeral bool
}

// New returns the transaction at path. Nothing is asked of the servers yet.
func New(c *client.Client, path string, o Options) (*Transaction, error) {
	if c == nil {
		return nil, fmt.Errorf("transaction: %w: client is nil", client.ErrBadArguments)
	}
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("transaction: path: %w", err)
	}
	return &Transaction{c: c, path: path, acl: o.ACL}, nil
}

// Begin makes the transaction's nodes, all in one change. client.ErrNodeExists if
// there is another transaction at the path.
func (t *Transaction) Begin(ctx context.Context, p Plan) error {
	if err := p.check(); err != nil {
		return t.wrap(ctx, "begin", err)
	}
	rec := record{ID: line.NewID(), Sites: p.Sites, Ephemeral: p.Ephemeral}
	ops := []client.Op{
		client.CreateOp(t.path, p.Data, client.CreateOptions{ACL: t.acl}),
		client.CreateOp(t.node(decisionNode), rec.encode(), client.CreateOptions{ACL: t.acl}),
	}
	for _, site := range p.Sites {
		if !p.Ephemeral {
			ops = append(ops, client.CreateOp(t.site(site), nil, client.CreateOptions{ACL: t.acl}))
		}
	}
	return t.wrap(ctx, "begin", t.create(ctx, rec.ID, ops))
}

// create does the operations, once.
func (t *Transaction) create(ctx context.Context, id string, ops []client.Op) error {
	const rounds = 10 // a container may be deleted between being made and being used
	var doubt error   // of an attempt of which no reply came
	for round := 1; ; {
		_, err := t.c.Steady().Multi(ctx, ops...)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, client.ErrNodeExists):
			rec, _, readErr := t.read(ctx)
			switch {
			case readErr == nil && rec.ID == id:
				return nil // an attempt of which no reply came
			case doubt != nil && readErr != nil && !errors.Is(readErr, client.ErrNoNode) && !errors.Is(readErr, recipes.ErrLayout):
				return line.InDoubt(doubt, readErr)
			}
			return err
		case errors.Is(err, client.ErrNoNode) && round < rounds:
			round++
			if err := settle.Ensure(ctx, t.c, line.Parent(t.path), client.CreateOptions{Mode: client.Container, ACL: t.acl}); err != nil {
				return err
			}
		case !client.IsAmbiguous(err) || ctx.Err() != nil:
			return err
		default:
			doubt = err
		}
	}
}

func (p Plan) check() error {
	if len(p.Sites) == 0 {
		return fmt.Errorf("%w: Sites is empty, but somebody has to vote", client.ErrBadArguments)
	}
	for i, site := range p.Sites {
		if site == "" || strings.ContainsAny(site, "/\x00") {
			return fmt.Errorf("%w: Sites has %q, which is no name of a node", client.ErrBadArguments, site)
		}
		if slices.Contains(p.Sites[:i], site) {
			return fmt.Errorf("%w: Sites has %q twice", client.ErrBadArguments, site)
		}
	}
	return nil
}

// Abort has the transaction aborted unless it is decided already, and returns the
// decision that it has. Anybody may do that, as when a site or the coordinator is not
// heard of any more. The reason is for people.
func (t *Transaction) Abort(ctx context.Context, reason string) (Decision, error) {
	for {
		rec, _, err := t.read(ctx)
		if err == nil && !rec.decided() {
			rec, err = t.settle(ctx, rec, Decision{Abort, reason})
		}
		if err != nil || rec.decided() {
			return rec.Decision, t.wrap(ctx, "abort", err)
		}
	}
}

// End deletes the transaction's nodes. To be called when all sites have done what was
// decided: who comes later finds nothing, and must not guess. ErrUndecided if there is
// no decision; there is no error if there is no transaction.
func (t *Transaction) End(ctx context.Context) error {
	return t.wrap(ctx, "end", t.end(ctx))
}

func (t *Transaction) end(ctx context.Context) error {
	c := t.c.Steady()
	if err := c.Sync(ctx, t.path); err != nil { // else it may look undecided still
		return err
	}
	for {
		rec, _, err := t.read(ctx)
		if errors.Is(err, client.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		if !rec.decided() {
			return ErrUndecided
		}
		list, err := c.Children(ctx, t.path)
		if errors.Is(err, client.ErrNoNode) {
			return nil
		}
		if err == nil {
			err = t.checkNames(rec, list.Names)
		}
		if err != nil {
			return err
		}
		var ops []client.Op
		for _, name := range list.Names {
			ops = append(ops, client.DeleteOp(t.node(name), client.AnyVersion))
		}
		_, err = c.Multi(ctx, append(ops, client.DeleteOp(t.path, client.AnyVersion))...)
		again := errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrNotEmpty) || client.IsAmbiguous(err)
		if !again || ctx.Err() != nil {
			return err
		}
	}
}

// checkNames finds children that are not the transaction's.
func (t *Transaction) checkNames(rec record, names []string) error {
	for _, name := range names {
		site, ok := strings.CutPrefix(name, sitePrefix)
		if name != decisionNode && !(ok && slices.Contains(rec.Sites, site)) {
			return fmt.Errorf("%w: %s has a child %q; delete it, or use another path", recipes.ErrLayout, t.path, name)
		}
	}
	return nil
}

func (t *Transaction) node(name string) string { return line.Join(t.path, name) }

func (t *Transaction) site(name string) string { return t.node(sitePrefix + name) }

func (t *Transaction) wrap(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s transaction %s: %w", what, t.path, line.Why(ctx, err))
}
