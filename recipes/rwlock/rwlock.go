package rwlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Kind is what a lock is held for, or wanted for.
type Kind int

const (
	// Read excludes writers only.
	Read Kind = iota
	// Write excludes everybody else.
	Write
)

// String returns the name in lower case.
func (k Kind) String() string {
	if k == Write {
		return "write"
	}
	return "read"
}

// ErrSelf is that somebody who holds the lock asked for it in a way that would have to
// wait for himself: a reader or a writer for the write lock. Unlock first; there is no
// way to get from the read lock to the write lock without letting others in between, as
// two readers who tried would wait for each other.
var ErrSelf = errors.New("the caller holds it already, and would wait for itself")

// Options are what a lock can be told. The zero value is good for most.
type Options struct {
	// ACL of the nodes; nil is client.OpenACL. Whoever takes part must be able to read
	// and create below the path, and to delete its own nodes. Who revokes must be able
	// to write the contenders' nodes, and to delete them. A Priority's writers must be
	// able to write the node at the path.
	ACL []client.ACL
	// Data are shown to whoever looks at the contenders. Nil is the host's name and the
	// process id: "db1:4711".
	Data []byte
	// Reserve is how long before the servers may give the lock to somebody else it
	// counts as lost, while the connection is down: what the holder needs to stop.
	Reserve time.Duration
	// OnRevoke, if not nil, is called when somebody asks for a lock that is held, in a
	// goroutine of its own. It may finish what it is at. If it returns true the lock is
	// then unlocked, if false the request is refused, and whoever asked is told. It
	// should return when h.Context() ends; nobody waits for it. It is called again for
	// a request that comes after it has refused one, and never twice at a time for
	// one Held. If it is nil requests are not answered.
	OnRevoke func(h *Held) (release bool)
	// Request is what Revoke writes into the node of whom it asks. "" is Unlock.
	// It must be Curator's if those who hold the lock are Java programs.
	Request Request
	// Audit, if not nil, is told of each Revoke and Break that is over, by the goroutine
	// that called it.
	Audit func(Revocation)
	// Ask has whoever is next in the line of a Priority ask those of lower priority that
	// hold the lock to give it up, once each. It is of no use to New.
	Ask bool
}

// RWLock is a lock that either one writer or any number of readers hold at a time, be it
// in this process or in any other.
type RWLock struct {
	base
}

// base is what a lock is besides its rule.
type base struct {
	line *line.Line
	o    Options
	// grant returns the path of the node that says that a place's contender holds the
	// lock, or "" if there is none but the place.
	grant func(place string) string
}

// New returns the lock with that path. It does not talk to the servers.
func New(c *client.Client, path string, o Options) (*RWLock, error) {
	if o.Ask {
		return nil, fmt.Errorf("rwlock %s: Ask is set: it is for NewPriority", path)
	}
	b, err := newBase(c, path, o)
	if err != nil {
		return nil, err
	}
	b.line.Layout = places()
	b.grant = func(string) string { return "" }
	return &RWLock{b}, nil
}

func newBase(c *client.Client, path string, o Options) (base, error) {
	if err := line.CheckPath(path); err != nil {
		return base{}, fmt.Errorf("rwlock: %w", err)
	}
	if o.Reserve < 0 {
		return base{}, fmt.Errorf("rwlock %s: Reserve is %v: it should not be negative", path, o.Reserve)
	}
	if o.Request == "" {
		o.Request = Unlock
	}
	if !isRequest([]byte(o.Request)) {
		return base{}, fmt.Errorf("rwlock %s: Request is %q: it should be rwlock.Unlock or rwlock.CuratorRevoke", path, o.Request)
	}
	if isRequest(o.Data) {
		return base{}, fmt.Errorf("rwlock %s: Data is %q: that means a request to unlock; take another text", path, o.Data)
	}
	if o.Data == nil {
		host, _ := os.Hostname() // it is only to be read by people
		o.Data = fmt.Appendf(nil, "%s:%d", host, os.Getpid())
	}
	return base{line: &line.Line{Client: c, Path: path, ACL: o.ACL}, o: o}, nil
}

// Path returns the lock's path.
func (b *base) Path() string { return b.line.Path }

// Lock waits until the caller may write: until all that asked before have unlocked. When
// ctx ends it gives up. The error wraps recipes.ErrLost if the place in the line has
// gone, by the end of the session or because somebody has broken it, and
// recipes.ErrLayout if there are nodes of somebody else's. That the place was broken is
// noticed when the one that it waits for has gone. It is ErrSelf if ctx descends
// from the Context of a Held of this RWLock.
//
// ctx is for the wait alone: the end of a time-out does not end what is held. Its values
// are those of Held.Context.
func (l *RWLock) Lock(ctx context.Context) (*Held, error) {
	h, _, err := l.take(ctx, Write, true)
	return h, err
}

// RLock waits until the caller may read: until all writers that asked before have
// unlocked. Else it is like Lock, but that it returns at once if ctx descends from the
// Context of a Held: who writes may read, and who reads may read once more, whoever
// waits. Each has to be unlocked. To downgrade is to take the read lock with the
// context of the write lock, and then to unlock the write lock.
func (l *RWLock) RLock(ctx context.Context) (*Held, error) {
	h, _, err := l.take(ctx, Read, true)
	return h, err
}

// TryLock takes the write lock if nobody has the lock or waits for it, and else returns
// false. It never waits for other contenders, and leaves no node if it returns false.
func (l *RWLock) TryLock(ctx context.Context) (*Held, bool, error) { return l.take(ctx, Write, false) }

// TryRLock takes the read lock if nobody has the write lock or waits for it, and else
// returns false.
func (l *RWLock) TryRLock(ctx context.Context) (*Held, bool, error) { return l.take(ctx, Read, false) }

func (l *RWLock) take(ctx context.Context, kind Kind, wait bool) (*Held, bool, error) {
	if outer := l.within(ctx); outer != nil {
		h, err := outer.nested(ctx, kind)
		return h, err == nil, l.failed(ctx, kind, err)
	}
	if !wait {
		if taken, err := l.taken(ctx, kind); taken || err != nil {
			return nil, false, l.failed(ctx, kind, err)
		}
	}
	place, err := l.line.Join(ctx, int(kind), l.o.Data)
	if err != nil {
		return nil, false, l.failed(ctx, kind, err)
	}
	turn := true
	if wait {
		err = place.Await(ctx, next)
	} else {
		turn, err = place.Try(ctx, next)
	}
	if !turn || err != nil {
		return nil, false, l.failed(ctx, kind, errors.Join(err, place.Leave(ctx)))
	}
	return l.held(ctx, kind, place), true, nil
}

// held makes what one has of a place whose turn it is.
func (l *RWLock) held(ctx context.Context, kind Kind, place *line.Place) *Held {
	h := &Held{
		b: &l.base, kind: kind, path: place.Path(), node: place.Path(), share: labels[Read],
		token: place.Token(), session: place.Session(),
	}
	o := line.HoldOptions{Reserve: l.o.Reserve, Changed: h.changed}
	h.begin(func() { h.holds = []*line.Hold{place.Hold(h.values(ctx), o)} })
	return h
}

// taken reports whether a new contender would have to wait. The first look may be an old
// one: what it shows is believed only if a second one, which is not, shows it, too.
func (l *RWLock) taken(ctx context.Context, kind Kind) (bool, error) {
	entries, err := l.line.List(ctx)
	if err != nil || behind(entries, len(entries), kind) < 0 {
		return false, err
	}
	if err := l.line.Client.Steady().Sync(ctx, l.Path()); err != nil {
		return false, err
	}
	entries, err = l.line.List(ctx)
	return err == nil && behind(entries, len(entries), kind) >= 0, err
}

// next is the rule of the line (seeds.md A25).
func next(entries []line.Entry, own int) int {
	for i := behind(entries, own, Kind(entries[own].Kind)); i >= 0; i-- {
		// Who has got a read lock beside another lock has the same number.
		if entries[i].Before(entries[own]) && conflict(entries[i].Kind, entries[own].Kind) {
			return i
		}
	}
	return -1
}

// behind returns the last one before i that a contender of the kind waits for: a writer
// for anybody, a reader for a writer.
func behind(entries []line.Entry, i int, kind Kind) int {
	for i--; i >= 0; i-- {
		if conflict(entries[i].Kind, int(kind)) {
			return i
		}
	}
	return -1
}

func conflict(a, b int) bool { return Kind(a) == Write || Kind(b) == Write }

// failed says what an error is about; nil stays nil.
func (b *base) failed(ctx context.Context, kind Kind, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s lock %s: %w", kind, b.Path(), line.Why(ctx, err))
}

// gone is that of a place that somebody has deleted.
func gone(path string) error { return fmt.Errorf("%w: %s was deleted", recipes.ErrLost, path) }
