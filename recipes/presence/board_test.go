package presence_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/presence"
)

func newBoard(w *trial.World, c *client.Client) *presence.Board {
	w.Helper()
	b, err := presence.NewBoard(c, "/workers", presence.Options{})
	w.Must(err)
	return b
}

func register(w *trial.World, c *client.Client, id, s string) *presence.Reporter {
	w.Helper()
	r, err := newBoard(w, c).Register(w.Ctx, id, s)
	w.Must(err)
	w.Cleanup(func() { _ = r.Release(w.Ctx) })
	return r
}

func renewing(o *client.Options) { o.RenewSession = true }

// shows renders workers as "a:idle b:busy".
func shows(workers []presence.Worker) string {
	var list []string
	for _, w := range workers {
		list = append(list, w.ID+":"+w.Status)
	}
	return strings.Join(list, " ")
}

// await follows until the workers are as wanted.
func await(w *trial.World, b *presence.Board, want string) presence.BoardView {
	w.Helper()
	for v, err := range b.Follow(w.Ctx) {
		if err != nil {
			w.Fatalf("while waiting for %q: %v", want, err)
		}
		if shows(v.Workers) == want {
			return v
		}
	}
	panic("unreachable")
}

// What a monitor sees of a worker's life.
func TestBoardMonitor(t *testing.T) {
	w := trial.New(t)
	var r *presence.Reporter
	var seen []string
	for v, err := range newBoard(w, w.Look).Follow(w.Ctx) {
		w.Must(err)
		seen = append(seen, fmt.Sprintf("%s *[%s] -[%s]", shows(v.Workers), shows(v.Changed), shows(v.Gone)))
		switch len(seen) {
		case 1:
			r = register(w, w.C, "w1", "idle")
		case 2:
			w.Must(r.Set(w.Ctx, "busy"))
		case 3:
			w.Must(r.Post("done"))
		case 4:
			w.Must(r.Release(w.Ctx))
		}
		if len(v.Gone) > 0 {
			break
		}
	}
	want := []string{" *[] -[]", "w1:idle *[w1:idle] -[]", "w1:busy *[w1:busy] -[]", "w1:done *[w1:done] -[]", " *[] -[w1:done]"}
	if !slices.Equal(seen, want) {
		t.Errorf("seen is\n%q, want\n%q", seen, want)
	}
}

func TestBoardWorkerFields(t *testing.T) {
	w := trial.New(t)
	r := register(w, w.C, "w1", "idle")
	all, err := newBoard(w, w.Look).Workers(w.Ctx)
	w.Must(err)
	before := all[0]
	own := w.C.Session().ID()
	if before.Session != own || before.ID != r.ID() || before.Since.IsZero() || before.Since.After(time.Now().Add(time.Hour)) {
		t.Errorf("worker is %+v", before)
	}
	w.Must(r.Set(w.Ctx, "idle")) // set again, to the same
	all, err = newBoard(w, w.Look).Workers(w.Ctx)
	if w.Must(err); all[0].Since.Before(before.Since) || all[0].Status != "idle" {
		t.Errorf("worker is %+v, was %+v", all[0], before)
	}
}

// The hazard of the book, in six steps:
//  1. The worker begins a task and sets its status to "working".
//  2. The request meets trouble with the network.
//  3. The worker completes the task, and the outcome of the request is not known yet.
//  4. The worker sets its status to "idle".
//  5. The client learns that the connection was lost.
//  6. The set of "working" is repeated, and overwrites "idle".
//
// The sixth step must not happen, whether the request was lost or its reply.
func TestBoardOlderStatusIsNotWrittenOverNewer(t *testing.T) {
	for _, lost := range []string{"request", "reply"} {
		t.Run(lost, func(t *testing.T) {
			w := trial.New(t)
			r := register(w, w.C, "w1", "new")
			cut := w.Proxy.CutBefore(zktest.Op(jute.OpSetData))
			if lost == "reply" {
				cut.Cancel()
				cut = w.Proxy.CutAfter(zktest.Op(jute.OpSetData))
			}
			w.Proxy.Refuse()
			working := make(chan error, 1)
			go func() { working <- r.Set(w.Ctx, "working") }() // 1
			<-cut.Done()                                       // 2, 3
			w.Must(r.Post("idle"))                             // 4
			w.Proxy.Accept()                                   // 5
			w.Must(<-working)                                  // overtaken is as good as written
			w.Must(r.Set(w.Ctx, "end"))                        // all before it is over

			stat := look(w, "/workers/w1")
			want := map[string]int32{"request": 2, "reply": 3}[lost] // "working" at most once
			if stat.Version != want {
				t.Errorf("there were %d writes, want %d", stat.Version, want)
			}
			await(w, newBoard(w, w.Look), "w1:end")
		})
	}
}

func look(w *trial.World, path string) client.Stat {
	w.Helper()
	w.Must(w.Look.Sync(w.Ctx, path))
	node, err := w.Look.Get(w.Ctx, path)
	w.Must(err)
	return node.Stat
}

// "idle" is what there was before: when "working" was lost there is nothing to write.
func TestBoardBackToTheStatusBefore(t *testing.T) {
	w := trial.New(t)
	r := register(w, w.C, "w1", "idle")
	cut := w.Proxy.CutBefore(zktest.Op(jute.OpSetData))
	w.Proxy.Refuse()
	w.Must(r.Post("working"))
	<-cut.Done()
	w.Must(r.Post("idle"))
	idle := make(chan error, 1)
	go func() { idle <- r.Set(w.Ctx, "idle") }()
	w.Proxy.Accept()
	w.Must(<-idle)
	if stat := look(w, "/workers/w1"); stat.Version > 1 {
		t.Errorf("version is %d", stat.Version)
	}
	await(w, newBoard(w, w.Look), "w1:idle")
}

// The create of the worker's node was done, and its reply lost: the node that exists is
// its own.
func TestBoardRegistrationWhoseReplyIsLost(t *testing.T) {
	w := trial.New(t)
	w.Must(settle.Ensure(w.Ctx, w.Look, "/workers", client.CreateOptions{}))
	cut := w.Proxy.CutAfter(zktest.Op(jute.OpCreate2))
	r := register(w, w.C, "w1", "Idle")
	<-cut.Done()
	w.Must(cut.Err())
	if stat := look(w, "/workers/w1"); stat.Version != 0 || !r.State().There || r.State().Zxid != stat.Czxid {
		t.Errorf("node is %+v, state %+v", stat, r.State())
	}
	_, err := newBoard(w, w.Look).Register(w.Ctx, "w1", "Idle")
	mustBe(t, err, client.ErrNodeExists)
}

// A monitor that is cut off shows what was, and says so.
func TestBoardMonitorIsCutOff(t *testing.T) {
	w := trial.New(t)
	r := register(w, w.Look, "w1", "idle")
	c := w.Proxy.Client(t, renewing).Namespace(w.Dir())
	began, cut := time.Now(), false
	for v, err := range newBoard(w, c).Follow(w.Ctx) {
		w.Must(err)
		switch {
		case !v.Stale && !cut:
			cut = true
			w.Proxy.Refuse()
			w.Proxy.CutConnections()
		case v.Stale && shows(v.Workers) == "w1:idle":
			if v.AsOf.Before(began) || v.AsOf.After(time.Now()) {
				t.Errorf("AsOf is %v", v.AsOf)
			}
			w.Must(r.Set(w.Ctx, "busy"))
			w.Proxy.Accept()
		}
		if !v.Stale && shows(v.Workers) == "w1:busy" {
			if !v.AsOf.IsZero() {
				t.Errorf("AsOf is %v", v.AsOf)
			}
			break
		}
	}
}

// What a status costs: one write, which wakes nobody but the monitors, each once.
func TestBoardTrace(t *testing.T) {
	w := trial.New(t)
	w.Must(settle.Ensure(w.Ctx, w.Look, "/workers", client.CreateOptions{}))
	monitor := zktest.NewProxy(t, w.Proxy.Addr())
	register(w, w.Look, "other", "idle")
	rec := w.Record()
	r := register(w, w.C, "w1", "idle")
	w.Must(r.Set(w.Ctx, "busy"))
	w.Must(r.Set(w.Ctx, "idle"))
	w.Must(r.Release(w.Ctx))
	want := []string{"create2 /workers/w1", "getChildren2 /workers/w1 watch", "setData /workers/w1", "setData /workers/w1", "delete /workers/w1", "event NodeDeleted /workers/w1"}
	w.Must(rec.Await(w.Ctx, "event", func(r zktest.Traced) bool { return r.Op == 0 }))
	if got := w.Trace(rec); !slices.Equal(got, want) {
		t.Errorf("trace is\n%q, want\n%q", got, want)
	}

	r = register(w, w.Look, "w1", "idle")
	c := monitor.Client(t).Namespace(w.Dir())
	step := 0
	for v, err := range newBoard(w, c).Follow(w.Ctx) {
		w.Must(err)
		if step++; step == 4 {
			break
		}
		if shows(v.Workers) == "" {
			t.Errorf("no workers")
		}
		w.Must(r.Set(w.Ctx, fmt.Sprint(step)))
	}
	if got := monitor.Notifications(); got != 3 {
		t.Errorf("the monitor was woken %d times by 3 changes", got)
	}
}

func TestBoardBadUse(t *testing.T) {
	w := trial.New(t)
	if _, err := presence.NewBoard(w.C, "workers", presence.Options{}); err == nil || !strings.Contains(err.Error(), "path") {
		t.Errorf("New = %v", err)
	}
	if _, err := newBoard(w, w.C).Register(w.Ctx, "a/b", ""); err == nil {
		t.Error("Register of a/b went well")
	}
	r := register(w, w.C, "w1", "idle")
	w.Must(r.Release(w.Ctx))
	mustBe(t, r.Release(w.Ctx), recipes.ErrNotHeld)
	mustBe(t, r.Post("x"), recipes.ErrClosed)
	mustBe(t, r.Set(w.Ctx, "x"), recipes.ErrClosed)
	mustBe(t, r.Err(), recipes.ErrClosed)

	_, err := settle.CreateAll(w.Ctx, w.Look, "/workers/foreign", nil, client.CreateOptions{})
	w.Must(err)
	_, err = newBoard(w, w.C).Workers(w.Ctx)
	mustBe(t, err, recipes.ErrLayout)
	for _, err = range newBoard(w, w.C).Follow(w.Ctx) {
	}
	mustBe(t, err, recipes.ErrLayout)

	_, err = w.Look.SetACL(w.Ctx, "/workers", client.ReadACL(), client.AnyVersion)
	w.Must(err)
	_, err = newBoard(w, w.C).Register(w.Ctx, "w1", "idle")
	mustBe(t, err, client.ErrNoAuth)
	if got := w.Children("/workers"); !slices.Equal(got, []string{"foreign"}) {
		t.Errorf("nodes are %q", got)
	}
}

// Without renewal a worker ends with its session, and the monitors see it.
func TestBoardEndsWithTheSession(t *testing.T) {
	w := trial.New(t)
	r := register(w, w.C, "w1", "busy")
	id := w.C.Session().ID()
	for v, err := range newBoard(w, w.Look).Follow(w.Ctx) {
		w.Must(err)
		if len(v.Changed) > 0 {
			w.Proxy.ExpireSession(id)
		}
		if shows(v.Gone) == "w1:busy" {
			break
		}
	}
	<-r.Done()
	mustBe(t, r.Err(), recipes.ErrLost)
	mustBe(t, r.Post("x"), recipes.ErrLost)
}
