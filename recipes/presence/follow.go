package presence

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// View is the members of a Group, and how they differ from the View before.
type View struct {
	// Members are all members, sorted by ID, as the others are.
	Members []Member
	// Joined and Left are those that have come and gone since the last View, and Changed
	// those whose data has changed. A member that left and joined again is in the first
	// two. In the first View all have joined.
	Joined, Left, Changed []Member
	// Stale means that the connection is lost, and that members may have come and gone.
	// The View with what changed meanwhile is not Stale.
	Stale bool
	// AsOf is since when it is Stale, by the program's clock, or zero if it is not. It takes
	// up to two thirds of the session's timeout to find out that a connection is dead.
	AsOf time.Time
}

// Follow returns the members, and again after each change, until the loop or ctx ends.
// Changes that come faster than the loop takes them are put together in one View. It
// continues after lost connections, and with client.Options.RenewSession after the end of
// the session. An error is the last.
func (g *Group) Follow(ctx context.Context) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		k, err := cache.Open(ctx, g.c, g.path, cache.Options{Depth: cache.ChildrenOnly})
		if err != nil {
			yield(View{}, err)
			return
		}
		defer k.Close()
		f := &follower{g: g, cache: k, members: map[string]Member{}}
		events := k.Events(ctx)
		for {
			if err := f.next(ctx, events); err != nil {
				yield(View{Members: f.list()}, err)
				return
			}
			if !yield(f.view(), nil) {
				return
			}
		}
	}
}

// follower makes views of the events of a cache.
type follower struct {
	g       *Group
	cache   *cache.Cache
	members map[string]Member // by the name of the node
	ready   bool
	asOf    time.Time // zero if not stale
	// Since the last View:
	joined, left, changed map[string]Member
	news                  bool
}

// next waits for news, and takes all that there are.
func (f *follower) next(ctx context.Context, events <-chan cache.Event) error {
	f.joined, f.left, f.changed, f.news = map[string]Member{}, map[string]Member{}, map[string]Member{}, false
	for !f.news || !f.ready {
		select {
		case e, ok := <-events:
			if !ok {
				return context.Cause(ctx)
			}
			if err := f.take(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return nil // the next call returns why
			}
			if err := f.take(e); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// take applies an event.
func (f *follower) take(e cache.Event) error {
	switch e.Type {
	case cache.Ready:
		f.ready, f.news = true, true
	case cache.Stale:
		f.asOf, f.news = time.Now(), true
		if since, stale := f.cache.Stale(); stale {
			f.asOf = since // the loop may have been slow
		}
	case cache.Fresh:
		f.asOf, f.news = time.Time{}, true
	case cache.Closed:
		return fmt.Errorf("%w: group %s: %w", recipes.ErrLost, f.g.path, e.Err)
	case cache.Unreadable:
		return e.Err
	}
	if e.Node.Path == f.g.path {
		return nil
	}
	return f.child(e, line.Base(e.Node.Path))
}

// child applies an event of a member's node.
func (f *follower) child(e cache.Event, name string) error {
	if _, ok := f.g.o.Layout.id(name, nil); !ok && f.g.o.Layout == Party {
		return nil
	}
	switch e.Type {
	case cache.Added:
		m, err := f.g.member(name, e.Node.Data, e.Node.Stat)
		if err != nil {
			return err
		}
		f.members[name], f.joined[name], f.news = m, m, true
	case cache.Removed:
		if _, new := f.joined[name]; new {
			delete(f.joined, name) // it came and went
		} else {
			f.left[name] = f.members[name]
		}
		delete(f.changed, name)
		delete(f.members, name)
		f.news = true
	case cache.Changed:
		return f.change(e, name)
	}
	return nil
}

// change applies a change of a member's data.
func (f *follower) change(e cache.Event, name string) error {
	m, err := f.g.member(name, e.Node.Data, e.Node.Stat)
	if err != nil || !e.DataChanged() {
		return err
	}
	f.members[name], f.news = m, true
	if _, new := f.joined[name]; new {
		f.joined[name] = m
	} else {
		f.changed[name] = m
	}
	return nil
}

func (f *follower) view() View {
	return View{
		Members: f.list(), Joined: sorted(f.joined), Left: sorted(f.left), Changed: sorted(f.changed),
		Stale: !f.asOf.IsZero(), AsOf: f.asOf,
	}
}

func (f *follower) list() []Member { return sorted(f.members) }

func sorted(members map[string]Member) []Member { return slices.SortedFunc(maps.Values(members), byID) }
