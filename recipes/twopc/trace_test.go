package twopc_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/twopc"
)

// What one site costs where there is a coordinator: it does not depend on how many
// sites there are.
func TestTraceSite(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(transaction(t, w.Look).Begin(w.Ctx, twopc.Plan{Sites: []string{"a"}, Ephemeral: true}))
	rec := w.Record()
	w.Must(join(w, w.C, "a").Vote(w.Ctx, twopc.Commit))
	awaited := background(w.Ctx, transaction(t, w.C).Await)
	w.Must(rec.Await(w.Ctx, "watch", func(r zktest.Traced) bool { return r.Watch }))
	_, _, err := w.C.Exists(w.Ctx, "/") // its reply comes behind that of the watch's
	w.Must(err)
	mustDecide(t, background(w.Ctx, transaction(t, w.Look).Decide), twopc.Commit)
	mustDecide(t, awaited, twopc.Commit)
	want := []string{
		"getData /tx/42",
		"getData /tx/42/decision",
		"create /tx/42/site-a",
		"setData /tx/42/site-a",
		"getData /tx/42/decision",
		"getData /tx/42/decision watch",
		"exists ", // the test's own
		"event NodeDataChanged /tx/42/decision",
		"getData /tx/42/decision",
	}
	if got := w.Trace(rec); !slices.Equal(got, want) {
		t.Errorf("trace is %q\nwant %q", got, want)
	}
}

// What the coordinator does when all have voted, and that it leaves no watch.
func TestTraceDecide(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(transaction(t, w.Look).Begin(w.Ctx, twopc.Plan{Sites: []string{"a", "b"}}))
	for _, name := range []string{"a", "b"} {
		w.Must(join(w, w.Look, name).Vote(w.Ctx, twopc.Commit))
	}
	rec := w.Record()
	mustDecide(t, background(w.Ctx, transaction(t, w.C).Decide), twopc.Commit)
	want := []string{
		"getData /tx/42/decision",
		"getData /tx/42/decision watch",
		"getData /tx/42/site-a",
		"getData /tx/42/site-b",
		"multi /tx/42/site-a",
		"multi /tx/42/site-b",
		"multi /tx/42/decision",
		"event NodeDataChanged /tx/42/decision",
	}
	if got := w.Trace(rec); !slices.Equal(got, want) {
		t.Errorf("trace is %q\nwant %q", got, want)
	}
	mustBe(t, w.C.CheckWatches(w.Ctx, path+"/site-a", client.AnyWatches), client.ErrNoWatcher)
}

// messages returns how many requests and events a transaction of n sites takes, that all
// are waiting for when the votes come.
func messages(t *testing.T, n int, peers bool) int {
	w := trial.New(t)
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("s%02d", i))
	}
	rec := w.Record()
	connect := func() *client.Client { return w.Proxy.Client(t).WithRetry(trial.Quick()).Namespace(w.Dir()) }
	coordinator := transaction(t, connect())
	w.Must(coordinator.Begin(w.Ctx, twopc.Plan{Sites: names}))
	var sites []*twopc.Site
	var waiting []<-chan result
	if !peers {
		waiting = append(waiting, background(w.Ctx, coordinator.Decide))
	}
	for _, name := range names {
		c := connect()
		sites = append(sites, join(w, c, name))
		wait := transaction(t, c).Await
		if peers {
			wait = transaction(t, c).Decide
		}
		waiting = append(waiting, background(w.Ctx, wait))
	}
	for _, s := range sites {
		w.Must(s.Vote(w.Ctx, twopc.Commit))
	}
	for _, done := range waiting {
		mustDecide(t, done, twopc.Commit)
	}
	return len(rec.All())
}

// With a coordinator the messages grow as the number of sites, without one as its
// square (seeds.md A36). A multi counts once for each of its operations.
func TestMessages(t *testing.T) {
	t.Parallel()
	const few, many = 4, 16
	for _, c := range []struct {
		mode        string
		peers       bool
		least, most float64 // by what they grow when the sites become four times as many
	}{{"coordinator", false, 3, 5}, {"peers", true, 6, 20}} {
		a, b := messages(t, few, c.peers), messages(t, many, c.peers)
		t.Logf("%s: %d sites take %d messages, %d sites take %d", c.mode, few, a, many, b)
		if growth := float64(b) / float64(a); growth < c.least || growth > c.most {
			t.Errorf("%s: messages grow %.1f-fold with %d-fold sites, want %.0f to %.0f", c.mode, growth, many/few, c.least, c.most)
		}
		if c.peers && b < many*many {
			t.Errorf("peers: %d messages for %d sites", b, many)
		}
	}
}
