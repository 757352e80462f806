package lock

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/recipes/internal/line"
)

// world is all state that decides who holds a Priority, on the servers and in the
// contenders. It is small enough to explore completely.
type world struct {
	version int32
	who     [3]actor
}

// actor is a contender: what nodes it has, what it has seen, and what it believes.
type actor struct {
	kind     Kind
	priority int32
	number   int32 // 0 before it has come
	place    bool
	grant    bool
	looked   bool  // it means to ask for the grant, of the version
	version  int32 // that it saw
	holds    bool
	leaving  bool // one of its nodes is deleted, but not yet the other one
	gone     bool
}

// rule is how a contender decides; the tests try wrong ones, too.
type rule struct {
	blocker func([]*seat, *seat) *seat
	check   bool // a grant is given only if the version is as it was
	second  bool // a writer looks again before it holds
}

var right = rule{blocker: blocker, check: true, second: true}

// seats returns what a look at the children shows, and which of them is i's.
func (w *world) seats(i int) (all []*seat, own *seat) {
	for j, a := range w.who {
		if !a.place && !a.grant {
			continue
		}
		s := &seat{kind: a.kind, priority: a.priority, number: a.number}
		if a.place {
			s.place = "place"
		}
		if a.grant {
			s.grant = "grant"
		}
		if all = append(all, s); i == j {
			own = s
		}
	}
	return all, own
}

// steps returns the worlds that one step of contender i can lead to.
func (w world) steps(i int, r rule) []world {
	var next []world
	step := func(fn func(w *world, a *actor)) {
		n := w
		fn(&n, &n.who[i])
		next = append(next, n)
	}
	a := w.who[i]
	if a.gone {
		return nil
	}
	if a.number == 0 {
		step(func(w *world, a *actor) {
			for _, o := range w.who {
				a.number = max(a.number, o.number)
			}
			a.number++
			a.place = true
		})
		return next
	}
	if a.leaving {
		step(func(_ *world, a *actor) { *a = actor{kind: a.kind, number: a.number, gone: true} })
		return next
	}
	// It may leave at any time: its session ends; it releases, which deletes the grant and
	// then the place; it gives up or is forced to, which deletes the place first.
	step(func(_ *world, a *actor) { *a = actor{kind: a.kind, number: a.number, gone: true} })
	step(func(_ *world, a *actor) { a.holds, a.looked, a.place, a.leaving = false, false, false, true })
	if a.holds {
		step(func(_ *world, a *actor) { a.holds, a.grant, a.leaving = false, false, true })
	}
	switch {
	case a.holds:
	case a.looked: // the multi
		step(func(w *world, a *actor) {
			a.looked = false
			if r.check && a.version != w.version {
				return
			}
			a.grant = true
			a.holds = !r.second
			if a.kind == Write {
				w.version++
			}
		})
	default: // the list
		all, own := w.seats(i)
		if r.blocker(all, own) == nil {
			step(func(w *world, a *actor) {
				a.holds = a.grant
				a.looked, a.version = !a.grant, w.version
			})
		}
	}
	return next
}

// exclusive reports whether nobody holds the lock beside a writer.
func (w *world) exclusive() bool {
	readers, writers := 0, 0
	for _, a := range w.who {
		if a.holds && a.kind == Write {
			writers++
		} else if a.holds {
			readers++
		}
	}
	return writers == 0 || writers == 1 && readers == 0
}

// explore goes through all that can happen, and returns how many worlds there are, and
// one that is wrong: two hold what they can't share, or all are stuck.
func explore(begin world, r rule) (worlds int, wrong *world) {
	seen := map[world]bool{begin: true}
	for todo := []world{begin}; len(todo) > 0; {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !w.exclusive() {
			return len(seen), &w
		}
		going := false
		for i, a := range w.who {
			all := w.steps(i, r)
			// Those that give up are two steps of each that waits.
			going = going || a.gone || a.holds || a.leaving || a.number == 0 || len(all) > 2
			for _, n := range all {
				if !seen[n] {
					seen[n] = true
					todo = append(todo, n)
				}
			}
		}
		if !going {
			return len(seen), &w
		}
	}
	return len(seen), nil
}

// beginnings are all choices of kinds and priorities, each once: the order of the contenders
// makes no difference.
func beginnings() (all []world) {
	var kinds []actor
	for p := range int32(3) {
		kinds = append(kinds, actor{kind: Read, priority: p}, actor{kind: Write, priority: p})
	}
	for i, a := range kinds {
		for j, b := range kinds[i:] {
			for _, c := range kinds[i+j:] {
				all = append(all, world{who: [3]actor{a, b, c}})
			}
		}
	}
	return all
}

// For three contenders of all kinds and priorities, in every order of joining, listing,
// requesting the grant and leaving: nobody holds the lock together with a writer, and one of
// them can always make progress.
func TestEveryInterleavingOfThree(t *testing.T) {
	worlds := 0
	for _, begin := range beginnings() {
		n, wrong := explore(begin, right)
		if wrong != nil {
			t.Fatalf("%+v", *wrong)
		}
		worlds += n
	}
	t.Logf("%d worlds", worlds)
}

// Each part of the rule is needed: without it there is an order of steps that lets in two.
func TestEveryPartOfTheRuleIsNeeded(t *testing.T) {
	blind := func(all []*seat, own *seat) *seat { // sees no grants
		for _, s := range all {
			if s != own && (s.kind == Write || own.kind == Write) && s.before(own) {
				return s
			}
		}
		return nil
	}
	rules := map[string]rule{
		"no check of the version":   {blocker: blocker, second: true},
		"a writer looks only once":  {blocker: blocker, check: true},
		"grants are not looked for": {blocker: blind, check: true, second: true},
	}
	for name, r := range rules {
		if !slices.ContainsFunc(beginnings(), func(begin world) bool {
			_, wrong := explore(begin, r)
			return wrong != nil
		}) {
			t.Errorf("%s: nothing goes wrong", name)
		}
	}
}

// The order of turns: grants first, then the higher priority, then the order of arrival.
func TestBlocker(t *testing.T) {
	names := []string{
		"_c_00000000-0000-4000-8000-000000000001-p0-write-0000000001",
		"_c_00000000-0000-4000-8000-000000000002-p0-read-0000000002",
		"_c_00000000-0000-4000-8000-000000000002-p0-read-held-0000000002",
		"_c_00000000-0000-4000-8000-000000000003-p-5-read-0000000003",
		"_c_00000000-0000-4000-8000-000000000004-p7-write-0000000004",
		"_c_00000000-0000-4000-8000-000000000005-p7-read--2147483648", // after 2147483647
		"_c_00000000-0000-4000-8000-000000000006-p0-read-held-0000000002",
	}
	var entries []line.Entry
	for _, name := range names {
		e, ok := seating(0).Parse(name)
		if !ok {
			t.Fatalf("%s is no place", name)
		}
		entries = append(entries, e)
	}
	all := seats(entries)
	var order []string
	for _, s := range all {
		order = append(order, s.id[len(s.id)-1:])
	}
	if got := fmt.Sprint(order); got != "[2 6 4 5 1 3]" {
		t.Errorf("the order is %v", got)
	}
	want := map[string]string{"1": "5", "2": "", "3": "1", "4": "2", "5": "4", "6": ""}
	for _, s := range all {
		id, got := s.id[len(s.id)-1:], ""
		if b := blocker(all, s); b != nil {
			got = b.id[len(b.id)-1:]
		}
		if got != want[id] {
			t.Errorf("%s waits for %q, want %q", id, got, want[id])
		}
	}
}

func TestNamesThatAreNoPlaces(t *testing.T) {
	const id = "_c_00000000-0000-4000-8000-000000000001"
	for _, name := range []string{
		"", "0000000001", id + "-p0-write-000000001", id + "-p0-writ-0000000001", id + "-p-write-0000000001",
		id + "-p2147483648-write-0000000001", id + "-lock-0000000001", id + "-p0-write-held0000000001", "x" + id + "-p0-read-0000000001",
	} {
		if _, ok := seating(0).Parse(name); ok {
			t.Errorf("%q is a place", name)
		}
	}
	if got := grantOf("/lock/" + id + "-p-3-write--2147483648"); got != "/lock/"+id+"-p-3-write-held--2147483648" {
		t.Errorf("grant is %q", got)
	}
	if got := grantOf("/lock/" + id + "-p-3-write-held-0000000001"); got != "" {
		t.Errorf("grant of a grant is %q", got)
	}
}

// The servers' numbers continue below zero, where they have ten characters or eleven,
// including the sign.
func TestSeatsBeyondTheLastNumber(t *testing.T) {
	layout := seating(-7)
	for _, n := range []int32{0, math.MaxInt32, math.MinInt32, -1000000000, -999999999, -1} {
		place := layout.Stem("write", line.NewID(), 0) + fmt.Sprintf("%010d", n)
		var entries []line.Entry
		for _, name := range []string{place, grantOf(place)} {
			e, ok := layout.Parse(name)
			if !ok || e.Number != n || Kind(e.Kind) != Write {
				t.Fatalf("%s is %+v, %v", name, e, ok)
			}
			entries = append(entries, e)
		}
		all := seats(entries)
		if len(all) != 1 || all[0].place != place || all[0].grant != grantOf(place) || all[0].priority != -7 || all[0].number != n {
			t.Errorf("%s makes %d seats, the first %+v", place, len(all), *all[0])
		}
		if got := grantOf(all[0].grant); got != "" {
			t.Errorf("the grant of a grant is %q", got)
		}
	}
}
