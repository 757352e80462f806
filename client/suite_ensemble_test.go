package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// TestSuiteMove takes a session from server to server: its ephemeral nodes and
// watches go with it.
func TestSuiteMove(t *testing.T) {
	w := newWorld(t, 3)
	ctx := deadline(t)
	other := w.Client(t)
	c := apiOf(t, w, false)
	_, err := c.Create(ctx, "/e", nil, client.CreateOptions{Mode: client.Ephemeral})
	ok(t, err)
	makeNode(t, c.Client, "/a", "")
	id := c.Session().ID()
	states := c.Session().States(ctx)
	for round := range 3 {
		node, err := c.GetW(ctx, "/a")
		ok(t, err)
		tree, err := c.AddWatch(ctx, "/a", client.WatchRecursive)
		ok(t, err)
		for i := range w.Len() {
			if w.At(i).Addr() == c.Status().Server {
				w.At(i).Refuse()
				defer w.At(i).Accept()
				w.At(i).CutSession(id)
			}
		}
		if change := ended(t, states, client.StateConnected); change.Session != id {
			t.Errorf("session %v, before %v", change.Session, id)
		}
		for i := range w.Len() {
			w.At(i).Accept()
		}
		_, err = other.Set(ctx, "/a", fmt.Append(nil, round), client.AnyVersion)
		ok(t, err)
		for _, watch := range []*client.Watch{node.Watch, tree} {
			ev, err := watch.Next(ctx)
			if err == nil && ev.Type == rearmed {
				ev, err = watch.Next(ctx)
			}
			if err != nil || ev.Type != changed || ev.Path != "/a" {
				t.Errorf("round %d: event %v, %v", round, ev, err)
			}
		}
		ok(t, tree.Close(ctx))
		if found, err := c.Exists(ctx, "/e"); !found.Exists || err != nil || found.Stat.EphemeralOwner != id {
			t.Errorf("exists /e = %v %+v, %v", found.Exists, found.Stat, err)
		}
	}
}

// TestSuiteSync reads at one server what was written at another: after a sync it
// is there.
func TestSuiteSync(t *testing.T) {
	inBothFormsOf := func(async bool) {
		t.Run(map[bool]string{false: "sync", true: "async"}[async], func(t *testing.T) {
			w := newWorld(t, 3)
			ctx := deadline(t)
			writer, c := w.Only(t, 0), w.Only(t, 1)
			reader := api{Client: c, a: c.Async(), async: async}
			makeNode(t, writer, "/a", "")
			for i := range 30 {
				want := fmt.Sprint(i)
				_, err := writer.Set(ctx, "/a", []byte(want), client.AnyVersion)
				ok(t, err)
				ok(t, reader.Sync(ctx, "/a"))
				if node, err := reader.Get(ctx, "/a"); err != nil || string(node.Data) != want {
					t.Fatalf("read %q, %v after %q was written", node.Data, err, want)
				}
			}
		})
	}
	inBothFormsOf(false)
	inBothFormsOf(true)
}

// TestSuiteNeverBackInTime moves a reader between servers: what it has seen it
// sees again.
func TestSuiteNeverBackInTime(t *testing.T) {
	w := newWorld(t, 3)
	ctx := deadline(t)
	writer := w.Client(t)
	makeNode(t, writer, "/a", "")
	reader := w.Client(t).WithRetry(client.DefaultRetry())
	id := reader.Session().ID()
	seen := client.Stat{}
	for i := range 20 {
		_, err := writer.Set(ctx, "/a", fmt.Append(nil, i), client.AnyVersion)
		ok(t, err)
		node, err := reader.Get(ctx, "/a")
		ok(t, err)
		if node.Stat.Mzxid < seen.Mzxid {
			t.Fatalf("read version %d after %d", node.Stat.Version, seen.Version)
		}
		if seen = node.Stat; i%5 == 4 {
			w.CutSession(id)
		}
	}
}

// TestSuiteServersOfConfig reads the members of the ensemble.
func TestSuiteServersOfConfig(t *testing.T) {
	w := newWorld(t, 3)
	ctx := deadline(t)
	for _, async := range []bool{false, true} {
		c := apiOf(t, w, async)
		config, err := c.unrooted().Get(ctx, client.ConfigPath)
		if err != nil || strings.Count(string(config.Data), "server.") != 3 || !strings.Contains(string(config.Data), "version=") {
			t.Errorf("getConfig = %q, %v", config.Data, err)
		}
		config, err = c.unrooted().GetW(ctx, client.ConfigPath)
		if err != nil || !strings.Contains(string(config.Data), "server.1=") || config.Watch == nil {
			t.Errorf("getConfigW = %q, %v", config.Data, err)
		}
		ok(t, config.Watch.Close(ctx))
	}
}

// TestSuiteOneServerLeft tries servers that don't answer, refuse, and serve: the
// last gets the session in time.
func TestSuiteOneServerLeft(t *testing.T) {
	w := newWorld(t, 3)
	w.At(0).Stall()
	w.At(1).Refuse()
	c, err := client.Connect(deadline(t), w.ConnectString()+w.Root, client.Options{Fixed: true, Timeout: 3 * time.Second, Logger: client.NoLog})
	ok(t, err)
	if c.Status().Server != w.At(2).Addr() {
		t.Errorf("connected to %s, want %s", c.Status().Server, w.At(2).Addr())
	}
	ok(t, c.Close(deadline(t)))
	w.At(0).Resume()
	w.At(1).Accept()
}

// TestSuiteLeaderKilled kills the leader under a client that writes: each write
// that was acknowledged is there, and each error may be one that it says. The
// servers are ours always: TestSurvivors in test/compat does it with others'.
func TestSuiteLeaderKilled(t *testing.T) {
	e := zktest.StartEnsemble(t, 3)
	ctx := deadline(t)
	c := e.Client(t, func(o *client.Options) { o.Timeout = 30 * time.Second }) // a slow machine may be silent for seconds
	_, err := c.Create(ctx, "/e", nil, client.CreateOptions{Mode: client.Ephemeral})
	ok(t, err)
	_, err = c.Create(ctx, "/q", nil, client.CreateOptions{})
	ok(t, err)
	id := c.Session().ID()
	acknowledged := map[string]bool{}
	ambiguous := 0
	for round := range 3 {
		writes := make(chan *client.Future[client.Created], 1000)
		go func() {
			defer close(writes)
			for i := range cap(writes) {
				writes <- c.Async().Create(fmt.Sprintf("/q/%d-%03d", round, i), nil, client.CreateOptions{})
			}
		}()
		for range 10 {
			v, err := (<-writes).Wait(ctx)
			ok(t, err)
			acknowledged[v.Path] = true
		}
		killed := e.KillLeader()
		for f := range writes {
			v, err := f.Wait(ctx)
			switch {
			case err == nil:
				acknowledged[v.Path] = true
			case errors.Is(err, client.ErrConnectionLoss) && client.IsAmbiguous(err):
				ambiguous++
			case !errors.Is(err, client.ErrConnectionLoss):
				t.Errorf("create = %v", err)
			}
		}
		e.Restart(killed)
		ok(t, e.WaitAll(ctx))
	}
	list, err := c.WithRetry(client.DefaultRetry()).Children(ctx, "/q")
	ok(t, err)
	there := map[string]bool{}
	for _, name := range list.Names {
		there["/q/"+name] = true
	}
	for path := range acknowledged {
		if !there[path] {
			t.Errorf("%s was acknowledged and is gone", path)
		}
	}
	if extra := len(there) - len(acknowledged); extra > ambiguous {
		t.Errorf("%d nodes that were not acknowledged, of %d that may be there", extra, ambiguous)
	}
	if found, err := c.Exists(ctx, "/e"); !found.Exists || err != nil || found.Stat.EphemeralOwner != id {
		t.Errorf("the ephemeral node: %v %+v, %v", found.Exists, found.Stat, err)
	}
}
