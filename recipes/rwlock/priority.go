package rwlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Priority is an RWLock whose contenders have priorities: of those that wait the one with
// the highest has its turn first, and of those with the same one who came first. It does
// not take the lock from anybody who holds it: see Options.Ask and Revoke.
type Priority struct {
	base
}

// NewPriority returns the lock with that path, which must not be one of an RWLock. It does
// not talk to the servers.
func NewPriority(c *client.Client, path string, o Options) (*Priority, error) {
	b, err := newBase(c, path, o)
	if err != nil {
		return nil, err
	}
	b.line.Layout = seating(0)
	b.grant = grantOf
	return &Priority{b}, nil
}

// Lock is RWLock.Lock with a priority, of which a larger number is a higher one.
func (p *Priority) Lock(ctx context.Context, priority int32) (*Held, error) {
	h, _, err := p.take(ctx, Write, priority, true)
	return h, err
}

// RLock is RWLock.RLock with a priority. It waits for writers that hold the lock and for
// those before it: of a higher priority, or of the same one that came earlier. One that
// is taken beside another one has the priority of that.
func (p *Priority) RLock(ctx context.Context, priority int32) (*Held, error) {
	h, _, err := p.take(ctx, Read, priority, true)
	return h, err
}

// TryLock takes the write lock if nobody has the lock and none of those who wait is before
// the caller, and else returns false. It never waits for other contenders, and leaves no
// node if it returns false. When contenders come at the same moment it may be false though
// the caller were the first.
func (p *Priority) TryLock(ctx context.Context, priority int32) (*Held, bool, error) {
	return p.take(ctx, Write, priority, false)
}

// TryRLock takes the read lock if nobody has the write lock and no writer that waits is
// before the caller, and else returns false. It is like TryLock otherwise.
func (p *Priority) TryRLock(ctx context.Context, priority int32) (*Held, bool, error) {
	return p.take(ctx, Read, priority, false)
}

func (p *Priority) take(ctx context.Context, kind Kind, priority int32, wait bool) (*Held, bool, error) {
	if outer := p.within(ctx); outer != nil {
		h, err := outer.nested(ctx, kind)
		return h, err == nil, p.failed(ctx, kind, err)
	}
	seated := *p.line
	seated.Layout = seating(priority)
	place, err := seated.Join(ctx, int(kind), p.o.Data)
	if err != nil {
		return nil, false, p.failed(ctx, kind, err)
	}
	c := &claim{p: p, c: p.line.Client.Steady().InSession(place.Session()), place: place, kind: kind, asked: make(map[string]bool)}
	granted, err := c.settle(ctx, wait)
	if !granted || err != nil {
		return nil, false, p.failed(ctx, kind, errors.Join(err, c.leave(ctx)))
	}
	return p.held(ctx, c, priority), true, nil
}

// held makes what one has of a claim that is granted.
func (p *Priority) held(ctx context.Context, c *claim, priority int32) *Held {
	place := c.place
	h := &Held{
		b: &p.base, kind: c.kind, path: place.Path(), node: c.grant(), token: c.token, session: place.Session(),
		share: fmt.Sprintf("p%d-%s-held", priority, Read),
	}
	h.begin(func() {
		seat := place.Hold(h.values(ctx), line.HoldOptions{Reserve: p.o.Reserve, Changed: h.changed})
		o := line.HoldOptions{Reserve: p.o.Reserve, Session: h.session}
		h.holds = []*line.Hold{seat, line.NewHold(seat.Context(), p.line.Client, h.node, o)}
	})
	return h
}

// Contenders returns those who hold the lock, and then those who wait for it, as the
// server knows them, in the order in which they would have their turn if no others came.
func (p *Priority) Contenders(ctx context.Context) ([]Contender, error) {
	entries, err := p.line.List(ctx)
	if err != nil {
		return nil, p.failed(ctx, Read, err)
	}
	var all []Contender
	sitting := seats(entries)
	for _, s := range sitting {
		all = append(all, Contender{
			Path: line.Join(p.Path(), s.node()), Kind: s.kind, Priority: s.priority,
			Holds: s.grant != "" && blocker(sitting, s) == nil,
		})
	}
	return p.describe(ctx, all)
}

// claim is the way of a contender from its place to its grant.
type claim struct {
	p     *Priority
	c     *client.Client // for the place's session
	place *line.Place
	kind  Kind
	// tried is whether there may be a grant, and token since when, if that is known.
	tried bool
	token client.Zxid
	// unknown: the grant was asked for, and it is not known whether it was made.
	unknown bool
	asked   map[string]bool // names of the nodes of those who were
}

func (c *claim) grant() string { return grantOf(c.place.Path()) }

// settle returns true once the lock is held, and false if it were to wait.
func (c *claim) settle(ctx context.Context, wait bool) (bool, error) {
	for {
		sitting, own, version, err := c.look(ctx)
		if err != nil {
			return false, err
		}
		before := blocker(sitting, own)
		switch {
		case before == nil && own.grant != "":
			return true, c.date(ctx)
		case before == nil:
			err = c.take(ctx, version)
		case !wait:
			return false, nil
		default:
			err = c.wait(ctx, sitting, own, before)
		}
		if err != nil {
			return false, err
		}
	}
}

// look returns the contenders, and the version of the lock's node at the same moment. It
// shows the own grant, if there is one: who waits for others and has a grant that he has
// not seen may be waited for by them.
func (c *claim) look(ctx context.Context) (sitting []*seat, own *seat, version int32, err error) {
	if c.unknown { // and the server may be behind the one that was asked to
		if err := c.c.Sync(ctx, c.p.Path()); err != nil {
			return nil, nil, 0, err
		}
		c.unknown = false
	}
	lookout := *c.p.line
	lookout.Client = c.c
	entries, stat, err := lookout.Look(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	sitting = seats(entries)
	for _, s := range sitting {
		if s.place == line.Base(c.place.Path()) {
			return sitting, s, stat.Version, nil
		}
	}
	return nil, nil, 0, gone(c.place.Path())
}

// take makes the grant, if no writer has been granted his since the lock's node had that
// version. Whether it did is for the next look to say.
func (c *claim) take(ctx context.Context, version int32) error {
	c.tried = true
	unchanged := client.CheckOp(c.p.Path(), version)
	if c.kind == Write {
		unchanged = client.SetOp(c.p.Path(), []byte(line.Base(c.place.Path())), version)
	}
	_, err := c.c.Multi(ctx, c.place.Guard(unchanged, client.CreateOp(c.grant(), c.p.o.Data, client.CreateOptions{Mode: client.Ephemeral, ACL: c.p.o.ACL}))...)
	for _, passing := range []error{client.ErrBadVersion, client.ErrNodeExists, client.ErrNoNode} {
		if errors.Is(err, passing) {
			return nil
		}
	}
	if client.IsAmbiguous(err) && ctx.Err() == nil && !errors.Is(err, client.ErrSessionExpired) {
		c.unknown = true
		return nil
	}
	return err
}

// date finds out since when there is the grant.
func (c *claim) date(ctx context.Context) error {
	found, err := c.c.Exists(ctx, c.grant())
	if err == nil && !found.Exists {
		err = gone(c.grant())
	}
	c.token = found.Stat.Czxid
	return err
}

// wait waits for the end of the one before.
func (c *claim) wait(ctx context.Context, sitting []*seat, own, before *seat) error {
	if c.p.o.Ask && before.grant != "" {
		if err := c.ask(ctx, sitting, own); err != nil {
			return err
		}
	}
	node, err := c.c.GetW(ctx, line.Join(c.p.Path(), before.node()))
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := line.Next(ctx, node.Watch); err != nil {
		return fmt.Errorf("wait for %s: %w", node.Watch.Path(), err)
	}
	return nil
}

// ask asks those who are in the way and of lower priority.
func (c *claim) ask(ctx context.Context, sitting []*seat, own *seat) error {
	for _, s := range sitting {
		if !s.blocks(own) || s.priority >= own.priority || c.asked[s.node()] {
			continue
		}
		c.asked[s.node()] = true
		err := c.p.request(ctx, line.Join(c.p.Path(), s.node()))
		if err != nil && !errors.Is(err, client.ErrNoNode) {
			return fmt.Errorf("ask for the lock: %w", err)
		}
	}
	return nil
}

// leave gives up. The place goes first: without it there can be no grant any more.
func (c *claim) leave(ctx context.Context) error {
	err := c.place.Leave(ctx)
	if c.tried {
		err = errors.Join(err, line.RemoveUnique(ctx, c.c, c.grant()))
	}
	return err
}
