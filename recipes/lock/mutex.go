package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Options are the options of a Mutex. The zero value is good for most.
type Options struct {
	hold.Options
	// Layout is how the nodes of contenders are named.
	Layout Layout
	// Reentrant makes Lock with a context that descends from Held.Context return at once,
	// with another Held of the same lock, which is free when all of them are released.
	// Otherwise that is an error, because it would wait for itself.
	Reentrant bool
	// Listener, if not nil, is notified of what becomes of the lock.
	Listener Listener
	// Waiting, if not nil, is called with the path of the node that Lock waits for,
	// before it waits and whenever that changes. It runs in Lock's goroutine.
	Waiting func(path string)
}

// Listener is notified of what becomes of a lock. Each Acquired is followed by either
// Released or Lost. It must not block.
type Listener interface {
	// Acquired is called before Lock returns.
	Acquired(h *hold.Held)
	// Released is called before Release returns, of the last Held if Reentrant.
	Released(h *hold.Held)
	// Lost is called when the lock is lost. The cause wraps recipes.ErrLost.
	Lost(h *hold.Held, cause error)
}

// Mutex is a lock that one contender holds at a time, in this process or in any other.
// Two calls of Lock of one Mutex are two contenders.
type Mutex struct {
	line *line.Line
	o    Options
}

// NewMutex returns the lock with that path. It does not contact the servers. All users of
// the lock must use the same path, and compatible layouts.
func NewMutex(c *client.Client, path string, o Options) (*Mutex, error) {
	if !o.Layout.valid() {
		return nil, fmt.Errorf("lock %s: %w: Layout is %v: it must be Curator, Kazoo or WriteLock", path, client.ErrBadArguments, o.Layout)
	}
	if err := complete(path, &o.Options); err != nil {
		return nil, err
	}
	return &Mutex{line: &line.Line{Client: c, Path: path, Layout: mutexLayout, ACL: o.ACL}, o: o}, nil
}

// complete checks what all locks have in common, and sets defaults.
func complete(path string, o *hold.Options) error {
	err := line.CheckPath(path)
	if err == nil {
		err = o.Complete()
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	return nil
}

// Path returns the lock's path.
func (m *Mutex) Path() string { return m.line.Path }

// Lock waits until the caller holds the lock. It gives up when ctx ends. The error wraps
// recipes.ErrLost if the place in the line has disappeared, because the session ended or
// somebody broke it, and recipes.ErrLayout if there are nodes of something else. If the
// place is deleted by other means than Break, Lock notices when the place before it
// disappears: it watches nothing else.
func (m *Mutex) Lock(ctx context.Context) (*hold.Held, error) {
	h, err := m.again(ctx)
	if h != nil || err != nil {
		return h, err
	}
	place, err := enter(ctx, m.line, int(m.o.Layout), m.o.Data, m.next, true)
	if err != nil {
		return nil, m.failed(ctx, err)
	}
	return m.acquired(ctx, place), nil
}

// TryLock acquires the lock if nobody holds it and nobody waits for it, and otherwise
// returns false. It never waits for other contenders, and leaves no node if it returns
// false. It does not even create one, unless others come at the same moment.
func (m *Mutex) TryLock(ctx context.Context) (*hold.Held, bool, error) {
	h, err := m.again(ctx)
	if h != nil || err != nil {
		return h, h != nil, err
	}
	place, err := enter(ctx, m.line, int(m.o.Layout), m.o.Data, line.First, false)
	if place == nil || err != nil {
		return nil, false, m.failed(ctx, err)
	}
	return m.acquired(ctx, place), true, nil
}

// enter returns a new place in the line whose turn it is by the rule. If it would have to
// wait and must not, it returns nil. It leaves no place behind if it does not return one.
func enter(ctx context.Context, l *line.Line, kind int, data []byte, rule line.Rule, wait bool) (*line.Place, error) {
	turn := true
	if !wait {
		free, err := confirmed(ctx, l.Client, l.Path, func() (bool, error) {
			entries, err := l.List(ctx)
			newcomer := line.Entry{Kind: kind}
			if n := len(entries); n > 0 {
				newcomer.Number = entries[n-1].Number + 1
			}
			return err == nil && rule(append(entries, newcomer), len(entries)) < 0, err
		})
		if !free || err != nil {
			return nil, err
		}
	}
	place, err := l.Join(ctx, kind, data)
	if err != nil {
		return nil, err
	}
	if wait {
		err = place.Await(ctx, rule)
	} else {
		turn, err = place.Try(ctx, rule)
	}
	if !turn || err != nil {
		return nil, both(err, place.Leave(ctx))
	}
	return place, nil
}

// confirmed reports whether there is room according to look, which reads a list. A list may
// be old: that there is no room is believed only if a second one, after a sync, agrees.
func confirmed(ctx context.Context, c *client.Client, path string, look func() (bool, error)) (bool, error) {
	room, err := look()
	if room || err != nil {
		return room, err
	}
	if err := c.Steady().Sync(ctx, path); err != nil {
		return false, err
	}
	return look()
}

// Contenders returns the contenders in order: the first one holds the lock. There are none
// if the lock's node does not exist.
func (m *Mutex) Contenders(ctx context.Context) ([]hold.Contender, error) {
	entries, err := m.line.List(ctx)
	if err != nil {
		return nil, m.failed(ctx, err)
	}
	list, err := hold.Describe(ctx, m.line.Client, m.Path(), entries)
	if err != nil {
		return nil, m.failed(ctx, err)
	}
	if len(list) > 0 {
		list[0].Holds = true
	}
	return list, nil
}

// Break takes the lock, or the place in the line, from one of Contenders: see hold.Break.
func (m *Mutex) Break(ctx context.Context, who hold.Contender) (hold.Contender, error) {
	return hold.Break(ctx, m.line.Client, who)
}

// next is the rule that each contender waits for the one before it.
func (m *Mutex) next(entries []line.Entry, own int) int {
	blocker := line.First(entries, own)
	if blocker >= 0 && m.o.Waiting != nil {
		m.o.Waiting(line.Join(m.Path(), entries[blocker].Name))
	}
	return blocker
}

// failed adds the lock's path to an error, and why the context ended; nil remains nil.
func (m *Mutex) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("lock %s: %w", m.Path(), line.Why(ctx, err))
}

// holding is a place that is the first in the line. If the lock is Reentrant, several Helds
// share it.
type holding struct {
	*line.Hold
	m          *Mutex
	place      *line.Place
	follows    context.Context // see hold.Description: each Held may outlive the others
	notLost    func() bool     // cancels the notification of a loss, and reports whether it was in time
	mu         sync.Mutex
	unreleased int // number of Helds
}

// share is the part that one Held has in a holding.
type share struct {
	*holding
	held *hold.Held
}

// inside is the key of the holding of a lock among the values of its context.
type inside struct{ m *Mutex }

// acquired returns what the caller holds by a place that is the first.
func (m *Mutex) acquired(ctx context.Context, place *line.Place) *hold.Held {
	g := &holding{m: m, place: place, follows: ctx, notLost: func() bool { return true }}
	h := g.another(ctx, func(ctx context.Context) {
		ctx = context.WithValue(context.WithoutCancel(ctx), inside{m}, g)
		g.Hold = place.Hold(ctx, line.HoldOptions{Reserve: m.o.Reserve})
	})
	if l := m.o.Listener; l != nil {
		l.Acquired(h)
		g.notLost = context.AfterFunc(g.Context(), func() { l.Lost(h, context.Cause(g.Context())) })
	}
	return h
}

// another returns one more Held of the same place.
func (g *holding) another(ctx context.Context, begin func(ctx context.Context)) *hold.Held {
	g.unreleased++
	s := &share{holding: g}
	of := hold.Description{What: "lock " + g.m.Path(), Nodes: []string{g.place.Path()}, Token: g.place.Token(), Follows: g.follows}
	s.held = hold.New(ctx, of, func(ctx context.Context) hold.Tenure {
		begin(ctx)
		return s
	})
	return s.held
}

// again returns another Held of the lock if ctx descends from the context of one.
func (m *Mutex) again(ctx context.Context) (*hold.Held, error) {
	g, ok := ctx.Value(inside{m}).(*holding)
	if !ok {
		return nil, nil
	}
	if err := context.Cause(ctx); err != nil {
		return nil, m.failed(ctx, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch err := g.Err(); {
	case g.unreleased == 0:
		return nil, nil // the context was detached from what has ended
	case err != nil:
		return nil, m.failed(ctx, err)
	case !m.o.Reentrant:
		return nil, m.failed(ctx, errors.New("the caller holds it already, and would wait for itself: release it before, or set Options.Reentrant"))
	}
	return g.another(ctx, func(context.Context) {}), nil
}

// End releases one Held, and with the last one the place.
func (s *share) End(ctx context.Context) error {
	if s.shared() {
		return s.Err()
	}
	lost := s.Err()
	unnotified := s.notLost()
	err := s.Hold.End(ctx)
	if l := s.m.o.Listener; l != nil && unnotified {
		if lost == nil && errors.Is(err, recipes.ErrLost) {
			lost = err
		}
		if lost != nil {
			l.Lost(s.held, lost)
		} else {
			l.Released(s.held)
		}
	}
	return err
}

// shared counts one Held less, and reports whether there are others.
func (g *holding) shared() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unreleased--
	return g.unreleased > 0
}
