package zktest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/standin"
)

// TestRestart shows that data, sessions and the address outlive the server, and
// that clients find it again.
func TestRestart(t *testing.T) {
	for name, down := range map[string]func(*zktest.Server){
		"stop":    (*zktest.Server).Stop,
		"kill":    (*zktest.Server).Kill,
		"restart": func(*zktest.Server) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := zktest.Start(t)
			c := s.Client(t)
			mustCreate(t, c, "/e", client.Ephemeral)
			states, addr := c.Session().States(deadline(t)), s.Addr()
			id := c.Session().ID()
			down(s)
			s.Restart()
			for change := range states {
				if change.To == client.StateConnected {
					break
				}
			}
			if again := c.Session().ID(); again != id || s.Addr() != addr {
				t.Errorf("session %v at %s, before %v at %s", again, s.Addr(), id, addr)
			}
			if found, err := c.Exists(deadline(t), "/e"); !found.Exists || err != nil {
				t.Errorf("exists = %v, %v", found.Exists, err)
			}
		})
	}
}

// TestRealExpiry has a session expire because nothing is heard of it.
func TestRealExpiry(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	watcher := s.Client(t)
	c := zktest.NewProxy(t, s.Addr())
	owner := c.Client(t, func(o *client.Options) { o.Timeout = 10 * time.Second }) // a busy machine may be silent for seconds
	mustCreate(t, owner, "/e", client.Ephemeral)
	found, err := watcher.ExistsW(deadline(t), "/e")
	if err != nil {
		t.Fatal(err)
	}
	c.Stall()
	if ev, err := found.Watch.Next(deadline(t)); err != nil || ev.Type != client.EventDeleted {
		t.Errorf("event %v, %v", ev, err)
	}
	c.Resume()
	if err := owner.Sync(deadline(t), "/"); !errors.Is(err, client.ErrSessionExpired) {
		t.Errorf("sync = %v", err)
	}
}

func TestConfig(t *testing.T) {
	s := zktest.Start(t, zktest.Config("4lw.commands.whitelist=ruok"))
	if text, _ := word(s.Addr(), "stat"); !strings.Contains(text, "not in the whitelist") {
		t.Errorf("stat said %q", text)
	}
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "tickTime") {
			t.Errorf("a bad line gives %q", text)
		}
	}()
	f := standin.New()
	defer f.End()
	zktest.Start(f, zktest.Config("tickTime=soon"))
}

func TestEnsemble(t *testing.T) {
	ctx := deadline(t)
	e := zktest.StartEnsemble(t, 3)
	c := e.Client(t).WithRetry(client.DefaultRetry())
	mustCreate(t, c, "/e", client.Ephemeral)
	first := e.Leader()
	if n := len(e.Followers()); first == 0 || n != 2 || slices.Contains(e.Followers(), first) {
		t.Errorf("leader %d, followers %v", first, e.Followers())
	}
	killed := e.KillLeader()
	second, err := e.WaitLeader(ctx)
	if err != nil || killed != first || second == first {
		t.Errorf("killed %d, which led: %d; now %d leads, %v", killed, first, second, err)
	}
	if found, err := c.Exists(ctx, "/e"); !found.Exists || err != nil {
		t.Errorf("exists = %v, %v", found.Exists, err)
	}
	e.Restart(killed)
	if err := e.WaitAll(ctx); err != nil {
		t.Error(err)
	}
	if found, err := e.At(killed-1).Client(t).Exists(ctx, "/e"); !found.Exists || err != nil {
		t.Errorf("exists at the server that was down = %v, %v", found.Exists, err)
	}
	e.Stop(second)
	if third, err := e.WaitLeader(ctx); err != nil || third == second {
		t.Errorf("after a stop of %d, %d leads, %v", second, third, err)
	}
	id := c.Session().ID()
	e.ExpireSession(id)
	if found, err := e.Client(t).Exists(ctx, "/e"); found.Exists || err != nil {
		t.Errorf("exists after expiry = %v, %v", found.Exists, err)
	}
}

// TestConnectString shows that the ensemble tells its clients the addresses that
// they know.
func TestConnectString(t *testing.T) {
	e := zktest.StartEnsemble(t, 3)
	config, err := e.Client(t).Unrooted().Get(deadline(t), client.ConfigPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range strings.Split(e.ConnectString(), ",") {
		if !strings.Contains(string(config.Data), ";"+addr) {
			t.Errorf("%s is not in the configuration:\n%s", addr, config.Data)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		f := standin.New()
		zktest.Start(f)
		b.StopTimer()
		f.End()
		b.StartTimer()
	}
}

func BenchmarkStartEnsemble(b *testing.B) {
	for b.Loop() {
		f := standin.New()
		zktest.StartEnsemble(f, 3)
		b.StopTimer()
		f.End()
		b.StartTimer()
	}
}

// TestFillDisk checks that with a full disk clients can connect, read and delete, and nothing
// else.
func TestFillDisk(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	mustCreate(t, c, "/a", client.Persistent)
	mustCreate(t, c, "/b", client.Persistent)
	s.FillDisk(true)
	for name, c := range map[string]*client.Client{"/a": c, "/b": s.Client(t)} {
		if _, err := c.Create(deadline(t), "/new", nil, client.CreateOptions{}); !errors.Is(err, client.ErrNoRoom) {
			t.Errorf("create = %v", err)
		}
		if err := c.Delete(deadline(t), name, client.AnyVersion); err != nil {
			t.Errorf("delete = %v", err)
		}
		if found, err := c.Exists(deadline(t), name); found.Exists || err != nil {
			t.Errorf("exists = %v, %v", found.Exists, err)
		}
	}
	s.FillDisk(false)
	mustCreate(t, c, "/new", client.Persistent)
}
