package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// patience ends tests that hang.
const patience = 5 * time.Minute

// leaving is how long giving something up waits for the servers, as a busy machine may take longer than line.Leaving.
const leaving = 30 * time.Second

// Patient returns a context with which giving something up may take that long.
func Patient(ctx context.Context) context.Context { return line.WithPatience(ctx, leaving) }

// World is the environment of a run.
type World struct {
	*testing.T
	Ctx context.Context // ends what hangs
	// C is the client that has the faults. Its retries are quick.
	C *client.Client
	// Proxy is between C and the servers.
	Proxy *zktest.Proxy
	// Look is another client, without faults.
	Look *client.Client
	// Fault is the name of the fault of C: "unharmed", "cut-before-3", "cut-after-3",
	// "expired-before-3", "expired-after-3".
	Fault string
	// Expires is whether C's session ends.
	Expires bool

	servers *zktest.Proxy
	dir     string
	hit     <-chan struct{} // closed when the fault begins; nil without one
}

// New returns a World without a fault, with one server or as many as given.
func New(t *testing.T, servers ...int) *World {
	t.Helper()
	n := 1
	if len(servers) > 0 {
		n = servers[0]
	}
	target := zktest.Target(t, n)
	w := newWorld(t, target, target.Client(t))
	w.connect()
	return w
}

// newWorld returns a World without C.
func newWorld(t *testing.T, servers *zktest.Proxy, look *client.Client) *World {
	t.Helper()
	w := &World{T: t, servers: servers, dir: "/trial-" + line.NewID(), Fault: "unharmed"}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w.Ctx = Patient(ctx)
	look = look.WithRetry(Quick())
	w.Look = look.Namespace(w.dir)
	if _, err := settle.Create(ctx, look, w.dir, nil, settle.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.remove(look) })
	// Of several addresses a client tries the next one without a pause.
	w.Proxy = zktest.NewProxy(t, slices.Repeat(addresses(servers), 4)...)
	return w
}

// connect creates C. Its session is plain, so that what is under way at a fault is in doubt.
func (w *World) connect(opts ...func(*client.Options)) {
	w.Helper()
	w.C = w.Proxy.Client(w.T, append(opts, zktest.Plain)...).WithRetry(Quick()).Namespace(w.dir)
}

func addresses(p *zktest.Proxy) []string { return strings.Split(p.ConnectString(), ",") }

// remove deletes the directory on servers that the test has not started.
func (w *World) remove(look *client.Client) {
	if !zktest.External() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := tree.Delete(ctx, look, w.dir, tree.DeleteOptions{}); err != nil {
		w.Logf("remove %s: %v", w.dir, err)
	}
}

// Quick is a retry policy without a limit and without long pauses.
func Quick() *client.RetryPolicy {
	return &client.RetryPolicy{Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond}
}

// Other returns one more client without faults.
func (w *World) Other(opts ...func(*client.Options)) *client.Client {
	return w.servers.Client(w.T, opts...).WithRetry(Quick()).Namespace(w.dir)
}

// Dir returns the path that the servers know the clients' "/" as.
func (w *World) Dir() string { return w.dir }

// Disconnect breaks C's connection, refuses new ones, and returns when C has noticed.
// Proxy.Accept ends it.
func (w *World) Disconnect() {
	w.Helper()
	states := w.C.Session().States(w.Ctx)
	w.Proxy.Refuse()
	w.Proxy.CutConnections()
	for change := range states {
		if change.To == client.StateSuspended {
			return
		}
	}
}

// Record begins to record the requests and events of C.
func (w *World) Record() *zktest.Recording { return w.Proxy.Record() }

// RecordOthers records the requests of the clients that Other returns, and of Look.
func (w *World) RecordOthers() *zktest.Recording { return w.servers.Record() }

// Trace returns what was recorded, with paths as the clients see them, and GUIDs and
// numbers made readable: "create /lock/_c_GUID-lock-", "event NodeDeleted
// /lock/_c_GUID-lock-#".
func (w *World) Trace(r *zktest.Recording) []string {
	var lines []string
	for _, e := range r.Take() {
		e.Path = readable(strings.TrimPrefix(e.Path, w.dir))
		lines = append(lines, e.String())
	}
	return lines
}

// Hit reports whether the fault has happened, or is under way: it does so before the client notices.
func (w *World) Hit() bool {
	select {
	case <-w.hit:
		return true
	default:
		return false
	}
}

// Must fails the test at once if err is not nil.
func (w *World) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// MustBe fails the test unless err is all of the targets.
func MustBe(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error is %v, want %v", err, target)
		}
	}
}

// Children returns the sorted names of the nodes below path, and none if there is no
// such path.
func (w *World) Children(path string) []string {
	w.Helper()
	w.Must(w.Look.Sync(w.Ctx, path))
	list, err := w.Look.Children(w.Ctx, path)
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	w.Must(err)
	slices.Sort(list.Names)
	return list.Names
}

// AwaitChildren waits until path has n nodes below it, and returns their names,
// sorted. A path that does not exist has none.
func (w *World) AwaitChildren(path string, n int) []string {
	w.Helper()
	return w.awaitAmong(path, fmt.Sprintf("%d nodes", n), func(names []string) bool { return len(names) == n })
}

// AwaitAnother waits until path has a node below it that is not one of those, however many
// of them are still there.
func (w *World) AwaitAnother(path string, those []string) {
	w.Helper()
	w.awaitAmong(path, "another node", func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(those, name) })
	})
}

// awaitAmong waits until ok accepts the names of the nodes below path, and returns them,
// sorted.
func (w *World) awaitAmong(path, wanted string, ok func(names []string) bool) []string {
	w.Helper()
	for {
		found, err := w.Look.ExistsW(w.Ctx, path)
		w.Must(err)
		var names []string
		wake := found.Watch
		if found.Exists {
			list, err := w.Look.ChildrenW(w.Ctx, path)
			if err != nil {
				continue // it has gone meanwhile
			}
			w.Must(found.Watch.Close(w.Ctx))
			names, wake = list.Names, list.Watch
		}
		if ok(names) {
			w.Must(wake.Close(w.Ctx))
			slices.Sort(names)
			return names
		}
		if _, err := wake.Next(w.Ctx); err != nil {
			w.Fatalf("%s has %q, not %s: %v", path, names, wanted, err)
		}
	}
}
