package lock

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Options are what a lock can be told. The zero value is good for most.
type Options struct {
	// Layout is what the lock's nodes are called.
	Layout Layout
	// ACL of the nodes; nil is client.OpenACL. Whoever takes part must be able to read
	// and create below the path, and to delete its own nodes.
	ACL []client.ACL
	// Data are shown to whoever looks at the contenders. Nil is the host's name and the
	// process id: "db1:4711".
	Data []byte
	// Reentrant makes Lock with a context that descends from Held.Context return at
	// once, with one more Held of the same lock, which is free when all of them are
	// unlocked. Without it that is an error: it would wait for itself.
	Reentrant bool
	// Listener, if not nil, is told what becomes of the lock.
	Listener Listener
	// Waiting, if not nil, is called with the path of the node that the lock waits for:
	// before waiting, and again when that changes. It runs in Lock's goroutine.
	Waiting func(behind string)
	// Reserve is how long before the servers may give the lock to somebody else it
	// counts as lost, while the connection is down: what the holder needs to stop. That
	// the connection is down may be noticed only a third of the session's timeout
	// before its end: more than that is not sure to be had.
	Reserve time.Duration
}

// Listener is told what becomes of a lock. After each Acquired comes either Released or
// Lost. It must not block.
type Listener interface {
	// Acquired is called before Lock returns.
	Acquired(h *Held)
	// Released is called before Unlock returns, of the last Held if Reentrant.
	Released(h *Held)
	// Lost is called when the lock is lost. The cause wraps recipes.ErrLost.
	Lost(h *Held, cause error)
}

// Mutex is a lock that one contender holds at a time, be it in this process or in any
// other. Two calls of Lock of one Mutex are two contenders.
type Mutex struct {
	line *line.Line
	o    Options
}

// New returns the lock with that path. It does not talk to the servers. All that use the
// lock must use the same path, and compatible layouts.
func New(c *client.Client, path string, o Options) (*Mutex, error) {
	switch err := line.CheckPath(path); {
	case err != nil:
		return nil, fmt.Errorf("lock: %w", err)
	case !o.Layout.valid():
		return nil, fmt.Errorf("lock %s: Layout is %v: it should be Curator, Kazoo or WriteLock", path, o.Layout)
	case o.Reserve < 0:
		return nil, fmt.Errorf("lock %s: Reserve is %v: it should not be negative", path, o.Reserve)
	}
	if o.Data == nil {
		host, _ := os.Hostname() // it is only to be read by people
		o.Data = fmt.Appendf(nil, "%s:%d", host, os.Getpid())
	}
	return &Mutex{line: &line.Line{Client: c, Path: path, Layout: places(), ACL: o.ACL}, o: o}, nil
}

// Path returns the lock's path.
func (m *Mutex) Path() string { return m.line.Path }

// Lock waits until the lock is the caller's. When ctx ends it gives up. The error wraps
// recipes.ErrLost if the place in the line has gone, by the end of the session or because
// somebody has broken it, and recipes.ErrLayout if there are nodes of somebody else's. A
// place that is deleted by hand, and not by Break, it notices when the one before it has
// gone: it watches nothing else, as one more watch for each that waits is a high price for
// what hardly ever happens, and a place that is gone keeps nobody waiting.
//
// ctx is for the wait alone: the end of a time-out does not end what is held. Its values
// are those of Held.Context.
func (m *Mutex) Lock(ctx context.Context) (*Held, error) {
	h, err := m.again(ctx)
	if h != nil || err != nil {
		return h, err
	}
	place, err := m.line.Join(ctx, int(m.o.Layout), m.o.Data)
	if err != nil {
		return nil, m.failed(ctx, err)
	}
	if err := place.Await(ctx, m.next); err != nil {
		return nil, m.failed(ctx, both(err, place.Leave(ctx)))
	}
	return m.hold(ctx, place), nil
}

// TryLock takes the lock if nobody has it and nobody waits for it, and else returns false.
// It never waits for other contenders, and leaves no node if it returns false. It makes
// none, either, unless somebody else comes at the same moment.
func (m *Mutex) TryLock(ctx context.Context) (*Held, bool, error) {
	h, err := m.again(ctx)
	if h != nil || err != nil {
		return h, h != nil, err
	}
	if taken, err := m.taken(ctx); taken || err != nil {
		return nil, false, m.failed(ctx, err)
	}
	place, err := m.line.Join(ctx, int(m.o.Layout), m.o.Data)
	if err != nil {
		return nil, false, m.failed(ctx, err)
	}
	first, err := place.Try(ctx, line.First)
	if !first || err != nil {
		return nil, false, m.failed(ctx, both(err, place.Leave(ctx)))
	}
	return m.hold(ctx, place), true, nil
}

// taken reports whether there are contenders. The first look may be an old one: what it
// shows is believed only if a second one, which is not, shows it, too.
func (m *Mutex) taken(ctx context.Context) (bool, error) {
	entries, err := m.line.List(ctx)
	if len(entries) == 0 || err != nil {
		return false, err
	}
	if err := m.line.Client.Steady().Sync(ctx, m.Path()); err != nil {
		return false, err
	}
	entries, err = m.line.List(ctx)
	return len(entries) > 0, err
}

// next is the rule that each waits for the one before it.
func (m *Mutex) next(entries []line.Entry, own int) int {
	blocker := line.First(entries, own)
	if blocker >= 0 && m.o.Waiting != nil {
		m.o.Waiting(line.Join(m.Path(), entries[blocker].Name))
	}
	return blocker
}

// failed says what an error is about, and why; nil stays nil.
func (m *Mutex) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("lock %s: %w", m.Path(), line.Why(ctx, err))
}
