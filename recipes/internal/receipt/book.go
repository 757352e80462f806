package receipt

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Options configure a Book.
type Options struct {
	// Path returns the path of a new receipt, which no other node may ever have.
	Path func() string
	// Missing creates the nodes above receipts. If it is nil and they are missing, the error
	// is client.ErrNoNode.
	Missing func(ctx context.Context) error
	// ACL is the access list of receipts; nil means client.OpenACL.
	ACL []client.ACL
}

// Book has the receipts of one user. It creates as many as there are changes at the same time,
// and uses them again.
type Book struct {
	c *client.Client
	o Options

	mu     sync.Mutex
	free   []*receipt // those that exist and are not in use
	closed bool
}

// receipt is one node.
type receipt struct {
	path    string
	session client.SessionID
	changes int32 // made with it; 0 if it does not exist
}

// New returns a Book. It sends no request.
func New(c *client.Client, o Options) *Book { return &Book{c: c.Steady(), o: o} }

// rounds is how often a change is tried because the connection or the session broke. Between
// two attempts the connection is back, for which the view's policy waits.
const rounds = 20

// Do makes the change, once or not at all. If the connection breaks, it finds out whether the
// change was made, and repeats it if not, in the next session if the session has ended. A
// client.MultiError says which of the operations failed, if one did.
func (b *Book) Do(ctx context.Context, ops ...client.Op) (Done, error) {
	for round := 1; ; round++ {
		done, err := b.do(ctx, ops)
		expired := errors.Is(err, client.ErrSessionExpired) && !client.IsAmbiguous(err)
		if !expired || round == rounds || b.c.WaitConnected(ctx) != nil {
			return done, err
		}
	}
}

// do is Do in one session.
func (b *Book) do(ctx context.Context, ops []client.Op) (Done, error) {
	c, session, err := line.Bind(ctx, b.c)
	if err != nil {
		return Done{}, err
	}
	r, err := b.take(session)
	if err != nil {
		return Done{}, err
	}
	ch := &change{b: b, c: c, r: r, ops: ops}
	done, err := ch.settle(ctx)
	b.give(ctx, ch.r, client.IsAmbiguous(err))
	return done, err
}

// take returns a receipt of that session that is not in use.
func (b *Book) take(session client.SessionID) (*receipt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, recipes.ErrClosed
	}
	b.free = slices.DeleteFunc(b.free, func(r *receipt) bool { return r.session != session })
	if n := len(b.free); n > 0 {
		r := b.free[n-1]
		b.free = b.free[:n-1]
		return r, nil
	}
	return b.fresh(session), nil
}

// fresh returns a receipt that does not exist yet.
func (b *Book) fresh(session client.SessionID) *receipt {
	return &receipt{path: b.o.Path(), session: session}
}

// give takes a receipt back. It deletes one that is of no more use.
func (b *Book) give(ctx context.Context, r *receipt, doubtful bool) {
	if r.changes == 0 && !doubtful {
		return // there is no such node
	}
	b.mu.Lock()
	keep := !doubtful && !b.closed
	if keep {
		b.free = append(b.free, r)
	}
	b.mu.Unlock()
	if !keep {
		_ = b.remove(ctx, r) // continues in the background; the session deletes it at the latest
	}
}

// remove deletes a receipt, at once or in the background.
func (b *Book) remove(ctx context.Context, r *receipt) error {
	return line.RemoveUnique(ctx, b.c.InSession(r.session), r.path)
}

// Closed reports whether the Book is closed.
func (b *Book) Closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// Close deletes the receipts that are not in use; changes under way delete theirs when they
// end. Later changes return recipes.ErrClosed. It is idempotent.
func (b *Book) Close(ctx context.Context) error {
	b.mu.Lock()
	free := b.free
	b.free, b.closed = nil, true
	b.mu.Unlock()
	var errs []error
	for _, r := range free {
		errs = append(errs, b.remove(ctx, r))
	}
	return errors.Join(errs...)
}
