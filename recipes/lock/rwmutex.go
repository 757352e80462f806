package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Kind is what a read-write lock is held for, or wanted for.
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

// ErrSelf means that the caller holds the lock and asked for it in a way that would have to
// wait for itself: a reader or a writer for the write lock. Release first. There is no
// way from the read lock to the write lock without letting others in between, as two
// readers that tried would wait for each other.
var ErrSelf = errors.New("the caller holds it already, and would wait for itself")

// RWOptions are the options of an RWMutex and of a Priority. The zero value is good for
// most. Data must not be a Request.
//
// With OnRevoke, contenders that revoke must be able to write the nodes of others, and to
// delete them; the writers of a Priority must be able to write the node at the path.
type RWOptions struct {
	hold.Options
	// OnRevoke, if not nil, is called in its own goroutine when somebody asks for a lock
	// that is held. It may finish its work. If it returns true the lock is then released;
	// if false the request is refused, and the one that asked learns of it. It should
	// return when h.Context() ends; nothing waits for it. It is called again for a request
	// that comes after it has refused one, but never twice at a time for one Held. If it is
	// nil, requests are not answered.
	OnRevoke func(h *hold.Held, kind Kind) (release bool)
	// Request is what Revoke writes into the node of the contender that it asks. "" is
	// AskRelease. It must be Curator's if the holders are Java programs.
	Request Request
	// Audit, if not nil, is called after each Revoke and Break, in its goroutine.
	Audit func(Revocation)
	// Ask makes the first contender that waits for a Priority ask the holders with lower
	// priorities to release, once each. An RWMutex has no use for it.
	Ask bool
}

// RWMutex is a lock that either one writer or any number of readers hold at a time, in
// this process or in any other.
type RWMutex struct {
	rw
}

// rw is a read-write lock without its rule.
type rw struct {
	line *line.Line
	o    RWOptions
	// grantOf returns the path of the node by which the contender of a place holds the
	// lock, or "" if that is the place.
	grantOf func(place string) string
}

// NewRWMutex returns the lock with that path. It does not contact the servers.
func NewRWMutex(c *client.Client, path string, o RWOptions) (*RWMutex, error) {
	if o.Ask {
		return nil, fmt.Errorf("lock %s: %w: Ask is set: it is for NewPriority", path, client.ErrBadArguments)
	}
	b, err := newRW(c, path, o)
	if err != nil {
		return nil, err
	}
	b.line.Layout = rwLayout
	b.grantOf = func(string) string { return "" }
	return &RWMutex{b}, nil
}

func newRW(c *client.Client, path string, o RWOptions) (rw, error) {
	if o.Request == "" {
		o.Request = AskRelease
	}
	if !isRequest([]byte(o.Request)) {
		return rw{}, fmt.Errorf("lock %s: %w: Request is %q: it must be AskRelease or CuratorRevoke", path, client.ErrBadArguments, o.Request)
	}
	if isRequest(o.Data) {
		return rw{}, fmt.Errorf("lock %s: %w: Data is %q: that is a request to release; choose another text", path, client.ErrBadArguments, o.Data)
	}
	if err := complete(path, &o.Options); err != nil {
		return rw{}, err
	}
	return rw{line: &line.Line{Client: c, Path: path, ACL: o.ACL}, o: o}, nil
}

// Path returns the lock's path.
func (l *rw) Path() string { return l.line.Path }

// Lock waits until the caller holds the write lock: until all that asked before have
// released. Its errors are those of Mutex.Lock, and ErrSelf if ctx descends from the
// Context of a Held of this RWMutex.
func (l *RWMutex) Lock(ctx context.Context) (*hold.Held, error) {
	h, _, err := l.take(ctx, Write, true)
	return h, err
}

// RLock waits until the caller holds the read lock: until all writers that asked before
// have released. It returns at once if ctx descends from the Context of a Held: a writer
// may read, and a reader may read once more, whatever waits. Each Held must be released. To
// downgrade, take the read lock with the context of the write lock, and then release the
// write lock.
func (l *RWMutex) RLock(ctx context.Context) (*hold.Held, error) {
	h, _, err := l.take(ctx, Read, true)
	return h, err
}

// TryLock acquires the write lock if nobody holds the lock or waits for it, and otherwise
// returns false. It never waits for other contenders, and leaves no node if it returns false.
func (l *RWMutex) TryLock(ctx context.Context) (*hold.Held, bool, error) {
	return l.take(ctx, Write, false)
}

// TryRLock acquires the read lock if nobody holds the write lock or waits for it, and
// otherwise returns false.
func (l *RWMutex) TryRLock(ctx context.Context) (*hold.Held, bool, error) {
	return l.take(ctx, Read, false)
}

func (l *RWMutex) take(ctx context.Context, kind Kind, wait bool) (*hold.Held, bool, error) {
	if outer := l.within(ctx); outer != nil {
		h, err := outer.nested(ctx, kind)
		return h, err == nil, l.failed(ctx, kind, err)
	}
	place, err := enter(ctx, l.line, int(kind), l.o.Data, rwNext, wait)
	if place == nil || err != nil {
		return nil, false, l.failed(ctx, kind, err)
	}
	r := &rwHolding{rw: &l.rw, kind: kind, share: rwLabels[Read], session: place.Session()}
	h := r.begin(ctx, hold.Description{Nodes: []string{place.Path()}, Token: place.Token()}, func(ctx context.Context) line.Holds {
		return line.Holds{place.Hold(ctx, line.HoldOptions{Reserve: l.o.Reserve, Changed: r.changed})}
	})
	return h, true, nil
}

// Contenders returns the contenders in the order of their turns, as the server knows them.
func (l *RWMutex) Contenders(ctx context.Context) ([]hold.Contender, error) {
	entries, err := l.line.List(ctx)
	if err != nil {
		return nil, l.failed(ctx, Read, err)
	}
	return l.describe(ctx, entries, func(i int, who *hold.Contender) {
		who.Shared, who.Holds = Kind(entries[i].Kind) == Read, rwNext(entries, i) < 0
	})
}

// describe returns the contenders with those names. set adds what follows from the whole
// list, given the index of an entry.
func (l *rw) describe(ctx context.Context, entries []line.Entry, set func(i int, who *hold.Contender)) ([]hold.Contender, error) {
	list, err := hold.Describe(ctx, l.line.Client, l.Path(), entries)
	if err != nil {
		return nil, l.failed(ctx, Read, err)
	}
	i := 0
	for n := range list {
		for line.Base(list[n].Path) != entries[i].Name { // which has disappeared meanwhile
			i++
		}
		set(i, &list[n])
		hideRequest(&list[n])
	}
	return list, nil
}

// rwNext is the rule of the line: a writer waits for any contender before it, a reader for
// a writer.
func rwNext(entries []line.Entry, own int) int {
	for i := own - 1; i >= 0; i-- {
		// A read lock that was acquired beside another lock has the same number.
		if entries[i].Before(entries[own]) && conflict(entries[i].Kind, entries[own].Kind) {
			return i
		}
	}
	return -1
}

// conflict reports whether two kinds exclude each other: they do unless both are Read.
func conflict(a, b int) bool { return Kind(a) == Write || Kind(b) == Write }

// failed adds the lock's path to an error, and why the context ended; nil remains nil.
func (l *rw) failed(ctx context.Context, kind Kind, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s lock %s: %w", kind, l.Path(), line.Why(ctx, err))
}
