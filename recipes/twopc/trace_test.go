package twopc_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/twopc"
)

// With a coordinator, the cost of one site does not depend on the number of sites.
func TestTraceSite(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(transaction(t, w.Look).Begin(w.Ctx, twopc.Plan{Sites: []string{"a"}, Ephemeral: true}))
	rec := w.Record()
	w.Must(join(w, w.C, "a").Vote(w.Ctx, twopc.Commit))
	awaited := background(w.Ctx, transaction(t, w.C).Await)
	w.Must(rec.Await(w.Ctx, "watch", func(r zktest.Traced) bool { return r.Watch }))
	_, err := w.C.Exists(w.Ctx, "/") // its reply comes after the one that set the watch
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

// The coordinator's requests when all sites have voted. It leaves no watch.
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
	mustBe(t, w.C.Session().CheckWatches(w.Ctx, path+"/site-a", client.AnyWatches), client.ErrNoWatcher)
}

// messages returns the number of requests and events of the votes of n sites, except the
// last vote, which decides. All that wait for a vote react when it comes.
func messages(t *testing.T, n int, peers bool) int {
	w := trial.New(t)
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("s%02d", i))
	}
	rec := w.Record()
	var clients []*client.Client
	connect := func() *twopc.Transaction {
		clients = append(clients, w.Proxy.Client(t).WithRetry(trial.Quick()).Namespace(w.Dir()))
		return transaction(t, clients[len(clients)-1])
	}
	coordinator := connect()
	w.Must(coordinator.Begin(w.Ctx, twopc.Plan{Sites: names}))
	deciders := 1
	waiting := []<-chan result{background(w.Ctx, coordinator.Decide)}
	var sites []*twopc.Site
	for _, name := range names {
		tx := connect()
		s, err := tx.Join(w.Ctx, name)
		w.Must(err)
		sites = append(sites, s)
		wait := tx.Await
		if peers {
			wait = tx.Decide
			deciders++
		}
		waiting = append(waiting, background(w.Ctx, wait))
	}
	awaitWatches(w, rec, "/decision", 1+n, clients)
	awaitWatches(w, rec, names[0], deciders, clients)
	count := 0
	rec.Take()
	for i, s := range sites {
		w.Must(s.Vote(w.Ctx, twopc.Commit))
		if i < n-1 {
			awaitWatches(w, rec, names[i+1], deciders, clients)
			count += len(slices.DeleteFunc(rec.Take(), func(r zktest.Traced) bool { return r.Op == jute.OpExists }))
		}
	}
	for _, done := range waiting {
		mustDecide(t, done, twopc.Commit)
	}
	return count
}

// awaitWatches waits until a node has n watches that were set since the record began.
func awaitWatches(w *trial.World, rec *zktest.Recording, name string, n int, clients []*client.Client) {
	w.Must(rec.Await(w.Ctx, "watches of "+name, func(zktest.Traced) bool {
		return n == len(slices.DeleteFunc(rec.All(), func(r zktest.Traced) bool { return !r.Watch || !strings.HasSuffix(r.Path, name) }))
	}))
	for _, c := range clients { // the reply comes after the one that set the watch
		_, err := c.Exists(w.Ctx, "/")
		w.Must(err)
	}
}

// With a coordinator the number of messages is in proportion to the number of sites, without
// one to its square: a vote is one request, and each Decide receives its event, reads it, and
// reads and watches the next one. Here the coordinator decides, too.
func TestMessages(t *testing.T) {
	t.Parallel()
	for _, n := range []int{4, 16} {
		if got, want := messages(t, n, false), (n-1)*(1+4); got != want {
			t.Errorf("coordinator: %d sites take %d messages, want %d", n, got, want)
		}
		if got, want := messages(t, n, true), (n-1)*(1+4*(n+1)); got != want {
			t.Errorf("peers: %d sites take %d messages, want %d", n, got, want)
		}
	}
}
