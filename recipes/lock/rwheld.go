package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// rwHolding is a read-write lock that is held.
type rwHolding struct {
	rw    *rw
	kind  Kind
	share string // precedes the number in the name of a read lock beside it
	// session is the one that the nodes belong to.
	session client.SessionID

	mu    sync.Mutex // held until held is set
	held  *hold.Held
	asked bool // OnRevoke is being called
	again bool // there was a request since
}

// insideRW is the key of the rwHolding of a lock among the values of its context.
type insideRW struct{ rw *rw }

// begin returns the Held of r, whose nodes watch watches. Requests to release that arrive
// before it returns wait.
func (r *rwHolding) begin(ctx context.Context, of hold.Description, watch func(ctx context.Context) line.Holds) *hold.Held {
	r.mu.Lock()
	defer r.mu.Unlock()
	of.What = fmt.Sprintf("%s lock %s", r.kind, r.rw.Path())
	r.held = hold.New(ctx, of, func(ctx context.Context) hold.Tenure {
		return watch(context.WithValue(context.WithoutCancel(ctx), insideRW{r.rw}, r))
	})
	return r.held
}

// within returns what the caller already holds according to its context, or nil.
func (l *rw) within(ctx context.Context) *rwHolding {
	r, ok := ctx.Value(insideRW{l}).(*rwHolding)
	if !ok || r.released() {
		return nil
	}
	return r
}

func (r *rwHolding) released() bool { return errors.Is(r.held.Err(), recipes.ErrNotHeld) }

// nested acquires the lock for a caller that holds it.
func (r *rwHolding) nested(ctx context.Context, kind Kind) (*hold.Held, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := r.held.Err(); err != nil {
		return nil, err
	}
	if kind == Write {
		return nil, ErrSelf
	}
	return r.beside(ctx)
}

// beside creates a read lock with the number of r. Contenders that wait for r therefore
// wait for it too, and no other comes before it. That requires that r was held when the
// node was created, which is checked after that.
func (r *rwHolding) beside(ctx context.Context) (*hold.Held, error) {
	l, outer := r.rw, r.held.Nodes()[0]
	c := l.line.Client.Steady().InSession(r.session)
	made, err := settle.Create(ctx, c, r.nameBeside(), l.o.Data, settle.CreateOptions{Mode: client.Ephemeral, ACL: l.o.ACL, By: settle.ByPath})
	if err != nil {
		return nil, err
	}
	found, err := c.Exists(ctx, outer)
	if err == nil && !found.Exists {
		err = deleted(outer)
	}
	if err != nil {
		return nil, errors.Join(err, line.RemoveUnique(ctx, c, made.Path))
	}
	read := &rwHolding{rw: l, kind: Read, share: r.share, session: r.session}
	of := hold.Description{Nodes: []string{made.Path}, Token: r.held.Token(), Follows: r.held.Follows()} // it may outlive r
	return read.begin(ctx, of, func(ctx context.Context) line.Holds {
		o := line.HoldOptions{Reserve: l.o.Reserve, Changed: read.changed, Session: r.session}
		return line.Holds{line.NewHold(ctx, l.line.Client, made.Path, o)}
	}), nil
}

// nameBeside returns a new path for a read lock beside r.
func (r *rwHolding) nameBeside() string {
	path := r.held.Path()
	number := path[strings.LastIndexAny(path, "_abcdefghijklmnopqrstuvwxyz")+1:]
	return line.Join(r.rw.Path(), "_c_"+line.NewID()+"-"+r.share+number)
}

// deleted returns the error of a place that somebody has deleted.
func deleted(path string) error { return fmt.Errorf("%w: %s was deleted", recipes.ErrLost, path) }
