package line_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// watched returns a hold of a new place, once it watches it.
func watched(w *trial.World, o line.HoldOptions) (*line.Place, *line.Hold, *zktest.Recording) {
	w.Helper()
	p := join(w, newLine(w.C))
	rec := w.Record()
	h := p.Hold(w.Ctx, o)
	w.Cleanup(h.Stop)
	w.Must(rec.Await(w.Ctx, "watch", func(e zktest.Traced) bool { return e.Watch }))
	w.Must(w.C.Sync(w.Ctx, "/")) // it is set, too
	rec.Take()
	return p, h, rec
}

// mustLose waits for the end of the hold.
func mustLose(t *testing.T, h *line.Hold) {
	t.Helper()
	<-h.Context().Done()
	for _, err := range []error{context.Cause(h.Context()), h.Err()} {
		if !errors.Is(err, recipes.ErrLost) {
			t.Errorf("the hold ends with %v, want that it is lost", err)
		}
	}
}

func TestHoldOfANodeThatIsDeleted(t *testing.T) {
	w := trial.New(t)
	p, h, _ := watched(w, line.HoldOptions{})
	w.Must(h.Err())
	w.Must(w.Look.Delete(w.Ctx, p.Path(), client.AnyVersion))
	mustLose(t, h)
	if err := h.End(w.Ctx); !errors.Is(err, recipes.ErrLost) {
		t.Errorf("end = %v", err)
	}
	w.Must(h.Release(w.Ctx))
}

func TestHoldOfASessionThatExpires(t *testing.T) {
	w := trial.New(t)
	_, h, _ := watched(w, line.HoldOptions{})
	id := w.C.Session().ID()
	w.Proxy.ExpireSession(id)
	mustLose(t, h)
	if err := h.End(w.Ctx); !errors.Is(err, recipes.ErrLost) {
		t.Errorf("end = %v", err)
	}
}

// Closing the client is the end of all that it holds.
func TestHoldOfAClientThatIsClosed(t *testing.T) {
	w := trial.New(t)
	_, h, _ := watched(w, line.HoldOptions{})
	w.Must(w.C.Close(w.Ctx))
	mustLose(t, h)
}

// While the connection is down it is held until the deadline, less the reserve. The reserve
// does not count while the connection is up, though the deadline is nearer than that.
func TestHoldWhileTheConnectionIsDown(t *testing.T) {
	w := trial.New(t)
	_, h, _ := watched(w, line.HoldOptions{Reserve: w.C.Status().Timeout - 100*time.Millisecond})
	_, long, _ := watched(w, line.HoldOptions{})
	w.Must(h.Err())
	w.Proxy.Refuse()
	deadline := w.C.Status().Deadline
	w.Proxy.CutConnections()
	mustLose(t, h)
	if time.Now().After(deadline) {
		t.Error("it was told after the session may have ended")
	}
	w.Must(long.Err())
	w.Proxy.Accept()
	w.Must(w.C.Sync(w.Ctx, "/"))
	w.Must(long.Err())
	w.Must(h.End(w.Ctx)) // the node was there still
}

// What Err has said to be lost is not held again a moment later: the context has ended.
func TestHoldThatIsFoundLost(t *testing.T) {
	w := trial.New(t)
	_, h, _ := watched(w, line.HoldOptions{Reserve: w.C.Status().Timeout})
	w.Proxy.Refuse()
	w.Proxy.CutConnections()
	for h.Err() == nil {
		w.Must(w.Ctx.Err())
	}
	if err := context.Cause(h.Context()); !errors.Is(err, recipes.ErrLost) {
		t.Errorf("the hold is lost, but its context has ended with %v", err)
	}
	w.Proxy.Accept()
	w.Must(w.C.Sync(w.Ctx, "/"))
	mustLose(t, h)
}

// A broken connection that is repaired in time is nothing.
func TestHoldOutlastsABrokenConnection(t *testing.T) {
	w := trial.New(t)
	p, h, _ := watched(w, line.HoldOptions{})
	w.Proxy.CutConnections()
	w.Must(w.C.Sync(w.Ctx, "/"))
	w.Must(h.Err())
	w.Must(w.Look.Delete(w.Ctx, p.Path(), client.AnyVersion)) // the watch is set again
	mustLose(t, h)
}

// The deletion uses the watch up: the server needn't be told to drop it.
func TestReleaseLeavesNoWatch(t *testing.T) {
	w := trial.New(t)
	p, h, rec := watched(w, line.HoldOptions{})
	w.Must(h.Release(w.Ctx))
	if got, want := w.Trace(rec), []string{"delete /line/_c_GUID-place-#", "event NodeDeleted /line/_c_GUID-place-#"}; !slices.Equal(got, want) {
		t.Errorf("trace is %q, want %q", got, want)
	}
	noWatch(w, p.Path())
	if err := context.Cause(h.Context()); !errors.Is(err, context.Canceled) || errors.Is(err, recipes.ErrLost) {
		t.Errorf("the context ends with %v", err)
	}
}

// Stopping leaves the node, and no watch.
func TestStopLeavesNoWatch(t *testing.T) {
	w := trial.New(t)
	p, h, _ := watched(w, line.HoldOptions{})
	h.Stop()
	h.Stop()
	noWatch(w, p.Path())
	if found, err := w.Look.Exists(w.Ctx, p.Path()); !found.Exists || err != nil {
		t.Errorf("the node: %v, %v", found.Exists, err)
	}
}

// Releasing does not wait for a connection whose caller doesn't.
func TestReleaseWithoutAConnection(t *testing.T) {
	w := trial.New(t)
	_, h, _ := watched(w, line.HoldOptions{})
	w.Disconnect()
	ended, end := context.WithCancel(w.Ctx)
	end()
	w.Must(h.Release(ended))
	w.AwaitChildren("/line", 1)
	w.Proxy.Accept()
	w.AwaitChildren("/line", 0) // in the background
}

func TestHoldTellsOfData(t *testing.T) {
	w := trial.New(t)
	told := make(chan string, 10)
	p, h, _ := watched(w, line.HoldOptions{Changed: func(data []byte) { told <- string(data) }})
	for _, want := range []string{"data", "new", "newer"} {
		if got := <-told; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		next := map[string]string{"data": "new", "new": "newer"}[want]
		if next != "" {
			_, err := w.Look.Set(w.Ctx, p.Path(), []byte(next), client.AnyVersion)
			w.Must(err)
		}
	}
	w.Must(h.Err())
}

// To be connected to a server without a quorum, which keeps no session, is not to hold: the
// reserve counts as it does without a connection.
func TestDeadlineAtAReadOnlyServer(t *testing.T) {
	w := trial.New(t)
	_, h, _ := watched(w, line.HoldOptions{Reserve: time.Second})
	connected := w.C.Status().Deadline
	for state, want := range map[client.State]time.Time{
		client.StateConnected: connected,
		client.StateReadOnly:  connected.Add(-time.Second),
		client.StateSuspended: connected.Add(-time.Second),
	} {
		if got := line.Deadline(h, state); !got.Equal(want) {
			t.Errorf("%v: until %v, want %v", state, got, want)
		}
	}
}
