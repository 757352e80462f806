package election_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// The requests of a candidate: joining for the first time, waiting for its predecessor,
// leading, acknowledging, releasing and joining again as the last.
func TestTraceOfALatch(t *testing.T) {
	w := trial.New(t)
	before := start(t, w.Look, "/e", election.Options{})
	await(w, before)
	rec := w.Record()
	l := start(t, w.C, "/e", election.Options{})
	awaitWatches(w, rec, 1)
	answered(w)
	mustTrace(w, rec,
		"create2 /e/_c_GUID-latch-", "getChildren2 /e",
		"getData /e/_c_GUID-latch-# watch") // the one before

	w.Must(before.Close(w.Ctx))
	leadership := await(w, l)
	awaitWatches(w, rec, 1)
	answered(w)
	mustTrace(w, rec,
		"event NodeDeleted /e/_c_GUID-latch-#",
		"getChildren2 /e", "getData /e/_c_GUID-latch-# watch") // its own

	w.Must(leadership.Acknowledge(w.Ctx, nil))
	mustTrace(w, rec,
		"create /e-acknowledged/_c_GUID-latch-#",
		"exists /e-acknowledged", "exists ", "createContainer /e-acknowledged", // the first time
		"create /e-acknowledged/_c_GUID-latch-#")

	w.Must(l.Close(w.Ctx))
	awaitDeletions(w, rec, 1, "/e/")
	mustTrace(w, rec,
		"delete /e/_c_GUID-latch-#", "event NodeDeleted /e/_c_GUID-latch-#",
		"delete /e-acknowledged/_c_GUID-latch-#")
}

// Each candidate watches the one before it, and the end of a leader wakes one of them:
// for n candidates there are n events, and a list is read n times.
func TestHerd(t *testing.T) {
	for _, n := range []int{5, 50} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := trial.New(t)
			leader := start(t, w.Look, "/e", election.Options{})
			await(w, leader)
			var line []*election.Latch
			for range n {
				l := start(t, w.C, "/e", election.Options{})
				reach(w, l, election.Standing)
				line = append(line, l)
			}
			watched(w, "/e", n)
			rec := w.Record() // of no watch that was on its way to this line
			before := w.Proxy.Requests()
			w.Must(leader.Close(w.Ctx))
			for i, l := range line {
				await(w, l)
				awaitWatches(w, rec, i+1) // it is watched over, too
				w.Must(l.Close(w.Ctx))
			}
			awaitDeletions(w, rec, n+1, "/e/")
			if got := w.Proxy.Notifications(); got != n+1 {
				t.Errorf("%d hand-overs had %d events, want one for each and that of the last one's own node", n, got)
			}
			lists := w.Proxy.Requests().Since(before).Of(jute.OpGetChildren2)
			if lists != n {
				t.Errorf("%d hand-overs read %d lists, want one for each", n, lists)
			}
		})
	}
}

// watched waits until all but the last of a line of n+1 are watched, the first one by its
// owner, too.
func watched(w *trial.World, path string, n int) {
	w.Helper()
	names := w.AwaitChildren(path, n+1)
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
	for _, name := range names[:n] {
		for {
			err := w.C.Session().CheckWatches(w.Ctx, path+"/"+name, client.DataWatches)
			if err == nil {
				break
			}
			if !errors.Is(err, client.ErrNoWatcher) {
				w.Fatal(err)
			}
		}
	}
}

// When a candidate in the middle fails, the one after it does not lead, but watches the
// one before. It fails because its session ends, or because its node is deleted.
func TestMiddleCandidateFails(t *testing.T) {
	for _, how := range []string{"its session ends", "its node is deleted"} {
		t.Run(how, func(t *testing.T) {
			w := trial.New(t)
			first := start(t, w.Look, "/e", election.Options{Options: hold.Options{Data: []byte("first")}})
			leader := await(w, first)
			other := w.Other()
			middle, err := election.NewLatch(other, "/e", election.Options{Options: hold.Options{Data: []byte("middle")}})
			w.Must(err)
			w.Must(middle.Start())
			reach(w, middle, election.Standing)
			rec := w.Record()
			last := start(t, w.C, "/e", election.Options{Options: hold.Options{Data: []byte("last")}})
			awaitWatches(w, rec, 1)
			answered(w)
			rec.Take()
			if got := ids(w, first.Election()); !slices.Equal(got, []string{"first", "middle", "last"}) {
				t.Fatalf("candidates are %q", got)
			}

			if how == "its session ends" {
				w.Must(other.Close(w.Ctx))
			} else {
				candidates, err := first.Election().Contenders(w.Ctx)
				w.Must(err)
				w.Must(w.Look.Delete(w.Ctx, candidates[1].Path, client.AnyVersion))
			}
			awaitWatches(w, rec, 1)
			answered(w)
			mustTrace(w, rec, "event NodeDeleted /e/_c_GUID-latch-#", "getChildren2 /e", "getData /e/_c_GUID-latch-# watch")
			for status := range last.Follow(w.Ctx) {
				if status.State != election.Standing {
					t.Errorf("the last candidate is %v", status.State)
				}
				break
			}
			if err := leader.Err(); err != nil {
				t.Errorf("the leader is none any more: %v", err)
			}
			w.Must(first.Close(w.Ctx))
			await(w, last)
			if how == "its session ends" {
				if _, err := middle.Await(w.Ctx); !errors.Is(err, client.ErrClosed) {
					t.Errorf("who has no session waits to lead and gets %v", err)
				}
			} else {
				w.AwaitChildren("/e", 2) // it joins again, now that it was woken
				if got := ids(w, first.Election()); !slices.Equal(got, []string{"last", "middle"}) {
					t.Errorf("candidates are %q", got)
				}
			}
			w.Must(middle.Close(w.Ctx))
		})
	}
}
