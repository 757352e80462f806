package semaphore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Lease is what one has of a semaphore, until Return or until it is lost: one lease or
// several that were acquired together.
type Lease struct {
	s      *Semaphore
	places []*line.Place
	// holds are of the places. The context of each ends with that of the one before.
	holds []*line.Hold

	mu       sync.Mutex
	returned bool
}

// lease begins to watch over the places.
func (t *taking) lease(ctx context.Context) *Lease {
	l := &Lease{s: t.s, places: t.places}
	ctx = context.WithoutCancel(ctx)
	for _, place := range t.places {
		h := place.Hold(ctx, line.HoldOptions{Reserve: t.s.o.Reserve})
		l.holds = append(l.holds, h)
		ctx = h.Context()
	}
	return l
}

func (l *Lease) last() int { return len(l.holds) - 1 }

// Context returns a context that ends when any of the leases is lost, with a cause that
// wraps recipes.ErrLost, or when they are returned. It has the values of the context that
// Acquire was given.
func (l *Lease) Context() context.Context { return l.holds[l.last()].Context() }

// N returns how many leases there are.
func (l *Lease) N() int { return len(l.places) }

// Token returns a number that is larger than those of all that acquired leases before:
// the zxid at which the last node was created. See the package's documentation.
func (l *Lease) Token() client.Zxid { return l.places[l.last()].Token() }

// Path returns the path of the node that stands for the lease: the first, if there are
// several.
func (l *Lease) Path() string { return l.places[0].Path() }

// Paths returns the paths of all nodes.
func (l *Lease) Paths() []string {
	var paths []string
	for _, place := range l.places {
		paths = append(paths, place.Path())
	}
	return paths
}

// Guard returns the operations with checks before them that the leases are held. A Multi of
// them, by the client that the semaphore was made with, is done as one, or not at all and
// with client.ErrNoNode if a lease is lost. The results have N more at the beginning.
func (l *Lease) Guard(ops ...client.Op) []client.Op {
	for _, place := range l.places {
		ops = place.Guard(ops...)
	}
	return ops
}

// Err returns nil while the leases are held. It looks at the clock, too, which Context does
// not if the process was stopped for a while: so ask before what must not be done without.
// It returns recipes.ErrNotHeld after Return.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.returned {
		return l.notHeld()
	}
	return l.holds[l.last()].Err()
}

func (l *Lease) notHeld() error {
	return fmt.Errorf("semaphore %s: %w: the lease has been returned before", l.s.path, recipes.ErrNotHeld)
}

// Return gives the leases back. It does so also if ctx has ended, waiting two seconds at
// most for each; what no server answers by then is seen to in the background. So its errors
// don't mean that a lease is still held, but for one of the servers', such as
// client.ErrNoAuth.
//
// It returns recipes.ErrNotHeld if it was called before, and recipes.ErrLost if a lease was
// lost before: then there may have been more holders than there are leases. If no server
// has answered, client.IsAmbiguous says so of the error: by the clock the leases were held
// until now, but somebody may have broken one while the connection was down.
func (l *Lease) Return(ctx context.Context) error {
	l.mu.Lock()
	before := l.returned
	l.returned = true
	l.mu.Unlock()
	if before {
		return l.notHeld()
	}
	lost := l.holds[l.last()].Err()
	var err error
	for i := l.last(); i >= 0; i-- {
		err = errors.Join(err, l.holds[i].End(ctx))
	}
	if lost != nil && !errors.Is(err, recipes.ErrLost) {
		err = errors.Join(lost, err)
	}
	if err != nil {
		return fmt.Errorf("return to semaphore %s: %w", l.s.path, err)
	}
	return nil
}
