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

// ErrVoted means that the site has already cast the other vote: a vote is final.
var ErrVoted = errors.New("the site has voted otherwise")

// ErrUndecided means that a transaction cannot be ended because there is no decision.
var ErrUndecided = errors.New("the transaction is not decided")

// Transaction is a change that all of several sites make, or none. It may be used from any
// goroutine.
type Transaction struct {
	c    *client.Client
	path string
	acl  []client.ACL
}

// Options configure a Transaction. The zero value is good for most.
type Options struct {
	// ACL is the access list of new nodes; nil means client.OpenACL. All participants must
	// be allowed to read, to write and, if sites are ephemeral, to create.
	ACL []client.ACL
}

// Plan describes a transaction.
type Plan struct {
	// Sites are the names of the sites, which vote.
	Sites []string
	// Data describes the change to the sites. Leave it nil if they learn it in another way.
	Data []byte
	// Ephemeral makes each site create its own node, which is deleted with its session: a
	// site that fails before the decision counts as a vote to abort. Otherwise Begin
	// creates the nodes, and a site may come back in another session.
	Ephemeral bool
}

// New returns the transaction at path. It sends no request.
func New(c *client.Client, path string, o Options) (*Transaction, error) {
	if c == nil {
		return nil, fmt.Errorf("transaction: %w: client is nil", client.ErrBadArguments)
	}
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("transaction: path: %w", err)
	}
	return &Transaction{c: c, path: path, acl: o.ACL}, nil
}

// Begin creates the transaction's nodes in one multi. The error wraps client.ErrNodeExists
// if there is another transaction at the path.
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

// create does the operations once.
func (t *Transaction) create(ctx context.Context, id string, ops []client.Op) error {
	const rounds = 10 // the servers may delete a new container before it is used
	var doubt error   // of an attempt whose reply was lost
	for round := 1; ; {
		_, err := t.c.Steady().Multi(ctx, ops...)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, client.ErrNodeExists):
			rec, _, readErr := t.read(ctx)
			switch {
			case readErr == nil && rec.ID == id:
				return nil // by an attempt whose reply was lost
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
		return fmt.Errorf("%w: Sites is empty: at least one site must vote", client.ErrBadArguments)
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

// Abort aborts the transaction unless it is already decided, and returns its decision. Any
// program may call it, for example when a site or the coordinator has failed. The reason is
// for people.
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

// End deletes the transaction's nodes. Call it when all sites have carried out the decision:
// a later caller cannot learn it. The error wraps ErrUndecided if there is no decision. It
// is no error if there is no transaction.
func (t *Transaction) End(ctx context.Context) error {
	return t.wrap(ctx, "end", t.end(ctx))
}

func (t *Transaction) end(ctx context.Context) error {
	c := t.c.Steady()
	if err := c.Sync(ctx, t.path); err != nil { // this server may not know the decision yet
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

// checkNames returns an error if a child is not one of the transaction's nodes.
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
