package zktest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
)

// expectData fails unless a node has the data, as a client sees it at its server.
func expectData(t *testing.T, c *client.Client, path, want string) {
	t.Helper()
	if node, err := c.Get(deadline(t), path); err != nil || string(node.Data) != want {
		t.Errorf("%s has %q, %v, want %q", path, node.Data, err, want)
	}
}

// put writes a node.
func put(t *testing.T, c *client.Client, path, data string) {
	t.Helper()
	if _, err := c.Set(deadline(t), path, []byte(data), client.AnyVersion); err != nil {
		t.Fatal(err)
	}
}

// lasting begins sessions that outlive all that a busy machine makes of a test while servers are cut
// off.
func lasting(o *client.Options) { o.Timeout = 10 * time.Minute }

// TestIsolate cuts the leader off from the others, with a client still connected.
func TestIsolate(t *testing.T) {
	ctx := deadline(t)
	e := zktest.StartEnsemble(t, 3)
	leader := e.Leader()
	c := e.At(leader-1).Client(t, zktest.Plain, lasting)
	mustCreate(t, c, "/a", client.Persistent)
	e.Isolate(leader)
	write := c.Async().Set("/a", []byte("lost"), client.AnyVersion)
	awaitOther(t, e, leader)
	if _, err := e.Client(t).Create(ctx, "/b", nil, client.CreateOptions{}); err != nil {
		t.Errorf("create with a majority: %v", err)
	}
	if _, err := write.Wait(ctx); !client.IsAmbiguous(err) {
		t.Errorf("write at the isolated leader = %v", err)
	}
	e.Rejoin(leader)
	if err := e.WaitAll(ctx); err != nil {
		t.Fatal(err)
	}
	if node, err := c.WithRetry(client.DefaultRetry()).Get(ctx, "/a"); err != nil || string(node.Data) == "lost" {
		t.Errorf("/a has %q, %v", node.Data, err)
	}
}

// awaitOther returns the leader after a server that isn't any more, or doesn't know it.
func awaitOther(t *testing.T, e *zktest.Ensemble, not int) int {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx := deadline(t); ; <-tick.C {
		for i := range e.Len() {
			if text, _ := word(e.At(i).Addr(), "srvr"); i+1 != not && strings.Contains(text, "Mode: leader") {
				return i + 1
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("no other leader than %d", not)
		}
	}
}

// TestLag has a server serve reads from the past. What it is told then it learns in
// order, with the events of it.
func TestLag(t *testing.T) {
	ctx := deadline(t)
	e := zktest.StartEnsemble(t, 3, zktest.Patient())
	leader := e.Leader()
	slow := leader%3 + 1
	there := e.At(leader-1).Client(t, lasting)
	here, other := e.At(slow-1).Client(t, lasting), e.At(slow-1).Client(t, lasting)
	mustCreate(t, there, "/a", client.Persistent)
	put(t, there, "/a", "old")
	if err := here.Sync(ctx, "/"); err != nil {
		t.Fatal(err)
	}
	node, err := here.GetW(ctx, "/a")
	if err != nil {
		t.Fatal(err)
	}

	e.Lag(slow)
	put(t, there, "/a", "new")
	expectData(t, here, "/a", "old")
	sync := other.Async().Sync("/")
	write := other.Async().Create("/b", nil, client.CreateOptions{})
	third := e.At(6-slow-leader-1).Client(t, lasting)
	for done := (client.Presence{}); !done.Exists && err == nil; { // the others do it
		done, err = third.Exists(ctx, "/b")
	}
	if err != nil {
		t.Fatal(err)
	}
	expectData(t, third, "/a", "new")
	expectData(t, here, "/a", "old")
	select {
	case ev := <-node.Watch.Events():
		t.Errorf("event %v at a server that lags", ev)
	case <-sync.Done():
		t.Error("a sync is answered by a server that lags")
	case <-write.Done():
		t.Error("a create is answered by a server that lags")
	default:
	}

	e.CatchUp(slow)
	if ev, err := node.Watch.Next(ctx); err != nil || ev.Type != client.EventDataChanged {
		t.Errorf("event %v, %v", ev, err)
	}
	expectData(t, here, "/a", "new")
	if _, err := sync.Wait(ctx); err != nil {
		t.Errorf("sync = %v", err)
	}
	if _, err := write.Wait(ctx); err != nil {
		t.Errorf("create = %v", err)
	}
}

// TestLagEnds shows that a server doesn't go on forever with a leader that it does not
// hear.
func TestLagEnds(t *testing.T) {
	e := zktest.StartEnsemble(t, 3, zktest.Config("zkd.electionTimeout=200"))
	slow := e.Followers()[0]
	states := e.At(slow - 1).Client(t).Session().States(deadline(t))
	e.Lag(slow)
	for change := range states {
		if change.To == client.StateSuspended {
			return
		}
	}
	t.Error("the server goes on")
}

// TestStrand cuts servers off that go on as if nothing was. A write that waits there is done when
// they are back, after what the others have done.
func TestStrand(t *testing.T) {
	for name, choose := range map[string]func(*zktest.Ensemble) int{
		"leader":   (*zktest.Ensemble).Leader,
		"follower": func(e *zktest.Ensemble) int { return e.Followers()[0] },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := deadline(t)
			e := zktest.StartEnsemble(t, 3, zktest.Patient(), zktest.Config("zkd.interlude=600000"))
			lost := choose(e)
			rest := e.At(lost%3).Client(t, lasting)
			mustCreate(t, rest, "/a", client.Persistent)
			put(t, rest, "/a", "old")
			here, writer := e.At(lost-1).Client(t, lasting), e.At(lost-1).Client(t, lasting)
			if err := here.Sync(ctx, "/"); err != nil {
				t.Fatal(err)
			}
			e.Strand(lost)
			write := writer.Async().Set("/a", []byte("lost"), client.AnyVersion)
			awaitOther(t, e, lost)
			if _, err := settle.Set(ctx, rest.WithRetry(client.DefaultRetry()), "/a", []byte("new"), 1); err != nil {
				t.Fatal(err)
			}
			expectData(t, here, "/a", "old")
			e.Rejoin(lost)
			if stat, err := write.Wait(ctx); err != nil || stat.Version != 3 {
				t.Errorf("write at a server that was alone = %+v, %v", stat, err)
			}
			again := here.WithRetry(client.DefaultRetry())
			if err := again.Sync(ctx, "/"); err != nil {
				t.Fatal(err)
			}
			expectData(t, again, "/a", "lost")
		})
	}
}
