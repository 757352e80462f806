package semaphore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Options are what a semaphore can be told. The zero value is good for most.
type Options struct {
	// Count is the path of a node that says how many leases there are, in place of New's
	// number: four bytes, the highest first, as Curator's SharedCount writes them. Its
	// changes are followed.
	Count string
	// ACL of the nodes; nil is client.OpenACL. Whoever takes part must be able to read
	// and create below the path, and to delete its own nodes.
	ACL []client.ACL
	// Data are shown to whoever looks at the contenders. Nil is the host's name and the
	// process id: "db1:4711".
	Data []byte
	// Reserve is how long before the servers may give a lease to somebody else it counts
	// as lost, while the connection is down: what the holder needs to stop.
	Reserve time.Duration
}

// ErrLimit is that those who use a semaphore don't agree on how many leases there are,
// or that more are asked for than there are.
var ErrLimit = errors.New("the number of leases does not fit")

// Semaphore has a number of leases, which are shared by those that use its path, be it in
// this process or in any other.
type Semaphore struct {
	c      *client.Client
	path   string
	n      int // 0 with Options.Count
	o      Options
	locks  *line.Line // where those wait whose turn it is not to take a lease
	leases *line.Line
}

// New returns the semaphore with that path, of that many leases, or 0 with Options.Count.
// It does not talk to the servers. All that use the semaphore must say the same number.
func New(c *client.Client, path string, leases int, o Options) (*Semaphore, error) {
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("semaphore: %w", err)
	}
	switch {
	case o.Count == "" && leases < 1:
		return nil, fmt.Errorf("semaphore %s: there are %d leases: it should be 1 or more, or Options.Count be set", path, leases)
	case o.Count != "" && leases != 0:
		return nil, fmt.Errorf("semaphore %s: there are %d leases, and Options.Count is set: it should be one or the other", path, leases)
	case o.Reserve < 0:
		return nil, fmt.Errorf("semaphore %s: Reserve is %v: it should not be negative", path, o.Reserve)
	}
	if o.Count != "" {
		if err := line.CheckPath(o.Count); err != nil {
			return nil, fmt.Errorf("semaphore %s: Count: %w", path, err)
		}
	}
	if o.Data == nil {
		host, _ := os.Hostname() // it is only to be read by people
		o.Data = fmt.Appendf(nil, "%s:%d", host, os.Getpid())
	}
	s := &Semaphore{c: c.Steady(), path: path, n: leases, o: o}
	s.locks = s.line("locks", "lock-")
	s.leases = s.line("leases", "lease-")
	return s, nil
}

func (s *Semaphore) line(name, label string) *line.Line {
	layout := &line.Layout{Labels: []string{label}}
	return &line.Line{Client: s.c, Path: line.Join(s.path, name), Layout: layout, ACL: s.o.ACL}
}

// Path returns the semaphore's path.
func (s *Semaphore) Path() string { return s.path }

// Acquire waits until n leases can be had at once, and takes them. Those who wait are
// served in the order in which they have come. When ctx ends it gives up. The error wraps
// recipes.ErrLost if the place in the line has gone, by the end of the session or because
// somebody has broken it, recipes.ErrLayout if there are nodes of somebody else's, and
// ErrLimit if there never are n leases or others say that there are more or fewer.
//
// ctx is for the wait alone: the end of a time-out does not end what is held. Its values
// are those of Lease.Context.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	if err := s.check(ctx, n); err != nil {
		return nil, s.failed(ctx, err)
	}
	turn, err := s.locks.Join(ctx, 0, s.o.Data)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	var lease *Lease
	if err = turn.Await(ctx, line.First); err == nil {
		lease, err = s.take(ctx, turn.Session(), n, true)
	}
	if err = errors.Join(err, turn.Leave(ctx)); err != nil {
		if lease != nil {
			err = errors.Join(err, lease.Return(ctx))
		}
		return nil, s.failed(ctx, err)
	}
	return lease, nil
}

// TryAcquire takes n leases if they can be had now, and nobody waits for leases, and else
// returns false. It never waits for other contenders, and leaves no node if it returns
// false. It makes none, either, unless somebody else comes at the same moment.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, bool, error) {
	if err := s.check(ctx, n); err != nil {
		return nil, false, s.failed(ctx, err)
	}
	if free, err := s.free(ctx, n); !free || err != nil {
		return nil, false, s.failed(ctx, err)
	}
	lease, err := s.take(ctx, 0, n, false)
	return lease, lease != nil, s.failed(ctx, err)
}

// check returns an error if n can't be had.
func (s *Semaphore) check(ctx context.Context, n int) error {
	if n < 1 {
		return fmt.Errorf("%w: %d are asked for: it should be 1 or more", ErrLimit, n)
	}
	if s.o.Count != "" {
		return nil
	}
	if n > s.n {
		return fmt.Errorf("%w: %d are asked for, but there are %d", ErrLimit, n, s.n)
	}
	return s.agree(ctx)
}

// free reports whether n leases are free, as far as one can see. What the first look shows
// may be old; that there are none is believed only of a second one, which is not.
func (s *Semaphore) free(ctx context.Context, n int) (bool, error) {
	for range 2 {
		limit, err := s.limit(ctx)
		if err != nil {
			return false, err
		}
		entries, err := s.leases.List(ctx)
		if err != nil || len(entries)+n <= limit {
			return err == nil, err
		}
		if err := s.c.Sync(ctx, s.path); err != nil {
			return false, err
		}
	}
	return false, nil
}

// failed says what an error is about; nil stays nil.
func (s *Semaphore) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("semaphore %s: %w", s.path, line.Why(ctx, err))
}
