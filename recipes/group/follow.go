package group

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

// View is who is in a group, and how that differs from the View before.
type View struct {
	// Members are all, sorted by ID. So are the others.
	Members []Member
	// Joined, Left and Changed are those that were not there, are not there any more,
	// and whose data have changed. Who has left and joined again is in both. In the
	// first View all have joined.
	Joined, Left, Changed []Member
	// Stale is whether the connection is lost: members may have come and gone. It is
	// false again in the View that has what changed meanwhile.
	Stale bool
	// AsOf is since when it is Stale, by the program's own clock, and zero if it is not.
	// A connection that died without a word is found to be lost after two thirds of the
	// session's timeout.
	AsOf time.Time
}

// Follow returns who is in the group, and then each change, until the loop or ctx
// ends. Changes that come faster than the loop takes them are put together in one View.
// It goes on through lost connections, and with client.Options.RenewSession through the
// end of the session. An error is the last.
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

// follower puts views together from a cache's events.
type follower struct {
	g       *Group
	cache   *cache.Cache
	members map[string]Member // by the name of the node
	ready   bool
	asOf    time.Time // zero if not stale
	// Since the View before:
	joined, left, changed map[string]Member
	news                  bool
}

// next waits for news, and takes all there are.
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
				return nil // the next call says why
			}
			if err := f.take(e); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// take takes one event.
func (f *follower) take(e cache.Event) error {
	switch e.Type {
	case cache.Ready:
		f.ready, f.news = true, true
	case cache.Stale:
		f.asOf, f.news = time.Now(), true
		if since, stale := f.cache.Stale(); stale {
			f.asOf = since // the loop may have taken its time to come here
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

// child takes an event of a member's node.
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
			delete(f.joined, name) // it has come and gone
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

// change takes a change of a member's data.
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
