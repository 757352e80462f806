package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// ErrLimit means that the users of a semaphore do not agree on the number of its leases, or
// that more are requested than there are.
var ErrLimit = errors.New("the number of leases does not fit")

// Semaphore has a number of leases, which all that use its path share, in this process
// and in others.
type Semaphore struct {
	c      *client.Client
	path   string
	n      int    // 0 if count says it
	count  string // path of a node, or ""
	o      hold.Options
	queue  *line.Line // of those that wait for their turn to create leases
	leases *line.Line
}

// NewSemaphore returns the semaphore with that path and number of leases. It does not
// contact the servers. All users of the semaphore must say the same number.
func NewSemaphore(c *client.Client, path string, leases int, o hold.Options) (*Semaphore, error) {
	if leases < 1 {
		return nil, fmt.Errorf("lock %s: %w: there are %d leases: there must be 1 or more", path, client.ErrBadArguments, leases)
	}
	return newSemaphore(c, path, leases, "", o)
}

// NewCountedSemaphore returns the semaphore with that path whose number of leases is in the
// node at count, in four bytes, the highest first, as Curator's SharedCount writes it. It
// follows the changes of that number.
func NewCountedSemaphore(c *client.Client, path, count string, o hold.Options) (*Semaphore, error) {
	if err := line.CheckPath(count); err != nil {
		return nil, fmt.Errorf("lock %s: count: %w", path, err)
	}
	return newSemaphore(c, path, 0, count, o)
}

func newSemaphore(c *client.Client, path string, leases int, count string, o hold.Options) (*Semaphore, error) {
	if err := complete(path, &o); err != nil {
		return nil, err
	}
	s := &Semaphore{c: c.Steady(), path: path, n: leases, count: count, o: o}
	s.queue = s.line("locks", "lock-")
	s.leases = s.line("leases", "lease-")
	return s, nil
}

func (s *Semaphore) line(name, label string) *line.Line {
	layout := &line.Layout{Labels: []string{label}}
	return &line.Line{Client: s.c, Path: line.Join(s.path, name), Layout: layout, ACL: s.o.ACL}
}

// Acquire waits until n leases are free at once, and takes them: Held.Nodes has n paths, and
// the loss of one is the loss of all. Callers that wait are served in the order in which
// they came. The errors are those of Mutex.Lock, and ErrLimit if there are never n leases,
// or if others say that there are more or fewer.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*hold.Held, error) {
	if err := s.check(ctx, n); err != nil {
		return nil, s.failed(ctx, err)
	}
	turn, err := s.queue.Join(ctx, 0, s.o.Data)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	var h *hold.Held
	if err = turn.Await(ctx, line.First); err == nil {
		h, err = s.take(ctx, turn.Session(), n, true)
	}
	if err = errors.Join(err, turn.Leave(ctx)); err != nil {
		if h != nil {
			err = errors.Join(err, h.Release(ctx))
		}
		return nil, s.failed(ctx, err)
	}
	return h, nil
}

// TryAcquire takes n leases if they are free now and nobody waits for leases, and otherwise
// returns false. It never waits for other contenders, and leaves no node if it returns
// false. It does not even create one, unless others come at the same moment.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*hold.Held, bool, error) {
	if err := s.check(ctx, n); err != nil {
		return nil, false, s.failed(ctx, err)
	}
	if free, err := s.free(ctx, n); !free || err != nil {
		return nil, false, s.failed(ctx, err)
	}
	h, err := s.take(ctx, 0, n, false)
	return h, h != nil, s.failed(ctx, err)
}

// check returns an error if there are never n leases.
func (s *Semaphore) check(ctx context.Context, n int) error {
	if n < 1 {
		return fmt.Errorf("%w: %d are requested: it must be 1 or more", ErrLimit, n)
	}
	if s.count != "" {
		return nil
	}
	if n > s.n {
		return fmt.Errorf("%w: %d are requested, but there are %d", ErrLimit, n, s.n)
	}
	return s.agree(ctx)
}

// free reports whether n leases are free.
func (s *Semaphore) free(ctx context.Context, n int) (bool, error) {
	return confirmed(ctx, s.c, s.path, func() (bool, error) {
		limit, err := s.limit(ctx)
		if err != nil {
			return false, err
		}
		entries, err := s.leases.List(ctx)
		return err == nil && len(entries)+n <= limit, err
	})
}

// Contenders returns the leases that are held, in the order in which they were taken, then
// those whose contender waits for room, and then the others in the line.
func (s *Semaphore) Contenders(ctx context.Context) ([]hold.Contender, error) {
	limit, err := s.limit(ctx)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	leases, err := s.describe(ctx, s.leases)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	first := make(map[client.SessionID]bool) // that wait for room
	for i := range leases {
		leases[i].Holds = i < limit
		if !leases[i].Holds {
			first[leases[i].Session] = true
		}
	}
	waiting, err := s.describe(ctx, s.queue)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	if len(waiting) > 0 && first[waiting[0].Session] {
		waiting = waiting[1:] // its leases are among the others
	}
	return slices.Concat(leases, waiting), nil
}

func (s *Semaphore) describe(ctx context.Context, l *line.Line) ([]hold.Contender, error) {
	entries, err := l.List(ctx)
	if err != nil {
		return nil, err
	}
	list, err := hold.Describe(ctx, s.c, l.Path, entries)
	for i := range list {
		list[i].Shared = true
	}
	return list, err
}

// Break takes a lease, or the place in the line, from one of Contenders: see hold.Break.
func (s *Semaphore) Break(ctx context.Context, who hold.Contender) (hold.Contender, error) {
	if err := oneOf(who, s.leases, s.queue); err != nil {
		return hold.Contender{}, err
	}
	if line.Parent(who.Path) == s.queue.Path {
		return hold.Break(ctx, s.c, who)
	}
	return hold.Remove(ctx, s.c, who) // those that wait for room watch the list
}

// failed adds the semaphore's path to an error, and why the context ended; nil remains nil.
func (s *Semaphore) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("semaphore %s: %w", s.path, line.Why(ctx, err))
}
