package presence_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/presence"
)

// Whatever breaks for a member that renews its session: it gets in once, and out.
func TestGroupEveryFaultOfMember(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		g := newGroup(w, w.C, presence.Options{})
		m, err := g.Join(w.Ctx, "a", []byte("1"))
		w.Must(err)
		w.Must(m.SetData(w.Ctx, []byte("2")))
		for view, err := range newGroup(w, w.Look, presence.Options{}).Follow(w.Ctx) {
			w.Must(err)
			if got := ids(view.Members); got == "a=2" {
				break
			} else if got != "" && got != "a=1" {
				w.Fatalf("%s: members are %q", w.Fault, got)
			}
		}
		w.Must(m.Release(w.Ctx))
		if got := w.Children("/g"); len(got) != 0 {
			w.Errorf("%s: after Release there is %q", w.Fault, got)
		}
	})
}

// Without renewal, and with a unique name: the end of the session is that of the
// membership, a broken connection is not.
func TestGroupEveryFaultWithoutRenewal(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		m, err := newGroup(w, w.C, presence.Options{Layout: presence.Party}).Join(w.Ctx, "a", nil)
		if err == nil {
			if got := w.Children("/g"); len(got) > 1 {
				w.Errorf("%s: members are %q", w.Fault, got)
			}
			err = m.Release(w.Ctx)
		}
		if err != nil && !(w.Expires && errors.Is(err, recipes.ErrLost)) {
			w.Errorf("%s: error is %v", w.Fault, err)
		}
		w.AwaitChildren("/g", 0)
	})
}

// Whatever breaks for one that follows: it sees what there is in the end, and how that
// came, without a gap.
func TestGroupEveryFaultOfFollower(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		theirs := newGroup(w, w.Look, presence.Options{})
		a := join(w, theirs, "a", "1")
		b := join(w, theirs, "b", "1")
		step := 0
		seen := map[string]bool{}
		for view, err := range newGroup(w, w.C, presence.Options{}).Follow(w.Ctx) {
			w.Must(err)
			apply(w, seen, view)
			switch {
			case step == 0 && ids(view.Members) == "a=1 b=1":
				w.Must(b.Release(w.Ctx))
				step++
			case step == 1 && ids(view.Members) == "a=1":
				w.Must(a.SetData(w.Ctx, []byte("2")))
				step++
			case step == 2 && ids(view.Members) == "a=2":
				join(w, theirs, "c", "")
				step++
			}
			if ids(view.Members) == "a=2 c" {
				break
			}
		}
	})
}

type failing interface {
	Errorf(format string, args ...any)
}

// apply checks that the differences are those to the view before.
func apply(t failing, seen map[string]bool, view presence.View) {
	for _, m := range view.Left {
		if !seen[m.Name] {
			t.Errorf("%s has left that was not there", m.Name)
		}
		delete(seen, m.Name)
	}
	for _, m := range view.Joined {
		if seen[m.Name] {
			t.Errorf("%s has joined that was there", m.Name)
		}
		seen[m.Name] = true
	}
	if !slices.IsSortedFunc(view.Members, func(a, b presence.Member) int { return strings.Compare(a.ID, b.ID) }) || len(seen) != len(view.Members) {
		t.Errorf("members are %q, but the differences add up to %v", ids(view.Members), seen)
	}
	for _, m := range view.Members {
		if !seen[m.Name] {
			t.Errorf("%s is there without having joined", m.Name)
		}
	}
}

// Members join and leave in storms while others follow. The differences always add up,
// and in the end each follower has the members that there are.
func TestGroupStorm(t *testing.T) {
	trial.Storms(t, trial.Weather{Renew: true}, func(s *trial.Storm) {
		var work, following sync.WaitGroup
		settled := make(chan struct{})
		memberships := make([]*presence.Membership, s.Clients())
		for i := range s.Clients() {
			g, err := presence.NewGroup(s.Client(i), "/g", presence.Options{})
			if err != nil {
				s.Fatal(err)
			}
			following.Go(func() { followUntil(s, g, settled) })
			work.Go(func() {
				for {
					m, err := g.Join(s.Ctx, fmt.Sprint("m", i), []byte("x"))
					if err != nil {
						s.Errorf("join: %v", err)
						return
					}
					memberships[i] = m
					if s.Over() {
						return
					}
					if err := m.Release(s.Ctx); err != nil {
						s.Errorf("leave: %v", err)
						return
					}
				}
			})
		}
		work.Wait()
		close(settled)
		following.Wait()
		for _, m := range memberships {
			if m == nil {
				continue
			}
			if err := m.Release(s.Ctx); err != nil {
				s.Errorf("leave: %v", err)
			}
		}
		g, _ := presence.NewGroup(s.Look, "/g", presence.Options{})
		if err := s.Look.Sync(s.Ctx, "/g"); err != nil {
			s.Errorf("sync: %v", err)
		}
		if members, err := g.Members(s.Ctx); len(members) != 0 || err != nil {
			s.Errorf("after all have left there are %q, %v", ids(members), err)
		}
	})
}

// followUntil follows until all members are seen after settled.
func followUntil(s *trial.Storm, g *presence.Group, settled <-chan struct{}) {
	seen := map[string]bool{}
	for view, err := range g.Follow(s.Ctx) {
		if err != nil {
			s.Errorf("follow: %v of %q", err, ids(view.Members))
			return
		}
		apply(s, seen, view)
		select {
		case <-settled:
		default:
			if s.Over() && len(view.Members) == s.Clients() {
				<-settled // no more changes may come
			} else {
				continue
			}
		}
		if len(view.Members) == s.Clients() && !view.Stale {
			return
		}
	}
}
