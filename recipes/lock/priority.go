package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Priority is a read-write lock whose contenders have priorities: of those that wait, the
// one with the highest has its turn first, and of those with the same priority the one
// that came first. It does not take the lock from a holder: see RWOptions.Ask and Revoke.
// The Token of its Held is the zxid at which the lock was granted.
type Priority struct {
	rw
}

// NewPriority returns the lock with that path, which must not be one of an RWMutex. It does
// not contact the servers.
func NewPriority(c *client.Client, path string, o RWOptions) (*Priority, error) {
	b, err := newRW(c, path, o)
	if err != nil {
		return nil, err
	}
	b.line.Layout = seating(0)
	b.grantOf = grantOf
	return &Priority{b}, nil
}

// Lock is RWMutex.Lock with a priority, of which a larger number is a higher one.
func (p *Priority) Lock(ctx context.Context, priority int32) (*hold.Held, error) {
	h, _, err := p.take(ctx, Write, priority, true)
	return h, err
}

// RLock is RWMutex.RLock with a priority. It waits for writers that hold the lock and for
// those before it: of a higher priority, or of the same one that came earlier. A read lock
// that is acquired beside another one has the priority of that one.
func (p *Priority) RLock(ctx context.Context, priority int32) (*hold.Held, error) {
	h, _, err := p.take(ctx, Read, priority, true)
	return h, err
}

// TryLock acquires the write lock if nobody holds the lock and no contender that waits is
// before the caller, and otherwise returns false. It never waits for other contenders, and
// leaves no node if it returns false. When contenders come at the same moment it may be
// false though the caller was the first.
func (p *Priority) TryLock(ctx context.Context, priority int32) (*hold.Held, bool, error) {
	return p.take(ctx, Write, priority, false)
}

// TryRLock acquires the read lock if nobody holds the write lock and no writer that waits is
// before the caller, and otherwise returns false. It is like TryLock otherwise.
func (p *Priority) TryRLock(ctx context.Context, priority int32) (*hold.Held, bool, error) {
	return p.take(ctx, Read, priority, false)
}

func (p *Priority) take(ctx context.Context, kind Kind, priority int32, wait bool) (*hold.Held, bool, error) {
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
	return c.held(ctx, priority), true, nil
}

// Contenders returns the holders, and then those who wait in the order in which they would
// have their turn if no others came, as the server knows them.
func (p *Priority) Contenders(ctx context.Context) ([]hold.Contender, error) {
	entries, err := p.line.List(ctx)
	if err != nil {
		return nil, p.failed(ctx, Read, err)
	}
	sitting := seats(entries)
	names := make([]line.Entry, len(sitting))
	for i, s := range sitting {
		names[i].Name = s.node()
	}
	return p.describe(ctx, names, func(i int, who *hold.Contender) {
		s := sitting[i]
		who.Shared, who.Priority = s.kind == Read, s.priority
		who.Holds = s.grant != "" && blocker(sitting, s) == nil
	})
}

// claim is the way of a contender from its place to its grant.
//
// The numbers alone cannot say who holds it, as a later place may go before an earlier
// one. So a contender whose turn it is requests its grant in a multi that takes effect only
// if the lock's node still has the version that it had when the children were listed:
//
//   - A reader's multi checks the version and creates the grant. It then holds the lock.
//   - A writer's multi changes the version and creates the grant. From then on nobody else
//     gets one: those that listed before fail at the version, those that list later see
//     the grant. The writer holds the lock once it sees no other grant. Readers may have
//     got theirs between its list and its multi; they are few, and it waits for them.
//
// So readers do not hinder each other, and a contender that comes too late for a grant sees
// it and waits, even if it has a higher priority. The version cannot begin again meanwhile,
// as the node has children.
//
// A contender does not learn of one that comes later and goes before it. When the node that
// it watches disappears it lists, finds the late one, and watches that.
type claim struct {
	p     *Priority
	c     *client.Client // for the place's session
	place *line.Place
	kind  Kind
	// tried means that the grant may exist. token is its czxid, once that is known.
	tried bool
	token client.Zxid
	// unknown means that the grant was requested, and may or may not have been created.
	unknown bool
	asked   map[string]bool // names of nodes whose contenders were asked to release
}

func (c *claim) grant() string { return grantOf(c.place.Path()) }

// held returns what the caller holds by a claim that is granted.
func (c *claim) held(ctx context.Context, priority int32) *hold.Held {
	l := &c.p.rw
	r := &rwHolding{rw: l, kind: c.kind, share: fmt.Sprintf("p%d-%s-held", priority, Read), session: c.place.Session()}
	of := hold.Description{Path: c.place.Path(), Nodes: []string{c.grant()}, Token: c.token}
	return r.begin(ctx, of, func(ctx context.Context) line.Holds {
		seat := c.place.Hold(ctx, line.HoldOptions{Reserve: l.o.Reserve, Changed: r.changed})
		o := line.HoldOptions{Reserve: l.o.Reserve, Session: r.session}
		return line.Holds{seat, line.NewHold(seat.Context(), l.line.Client, c.grant(), o)}
	})
}

// settle returns true once the lock is held, and false if it would have to wait but must
// not.
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
// always shows the contender's own grant if that exists: a contender with a grant that it
// has not seen would wait for others that may wait for it.
func (c *claim) look(ctx context.Context) (sitting []*seat, own *seat, version int32, err error) {
	if c.unknown { // and this server may lag behind the one that received the request
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
	return nil, nil, 0, deleted(c.place.Path())
}

// take creates the grant, if no writer has been granted its own since the lock's node had
// that version. The next look tells whether it did.
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

// date determines the zxid at which the grant was created.
func (c *claim) date(ctx context.Context) error {
	found, err := c.c.Exists(ctx, c.grant())
	if err == nil && !found.Exists {
		err = deleted(c.grant())
	}
	c.token = found.Stat.Czxid
	return err
}

// wait waits until the one before is deleted.
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

// ask asks the contenders that are in the way and have a lower priority to release.
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

// leave gives up. It deletes the place first: without it there cannot be a new grant.
func (c *claim) leave(ctx context.Context) error {
	err := c.place.Leave(ctx)
	if c.tried {
		err = errors.Join(err, line.RemoveUnique(ctx, c.c, c.grant()))
	}
	return err
}
