package server

import (
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/config"
)

// The keys that the table calls live are those that a part of the server takes over, and the
// level of the log, which is the program's.
func TestLiveKeysAreTakenOver(t *testing.T) {
	want := slices.Sorted(maps.Keys((&Server{}).live()))
	want = append(want, "zkd.logLevel")
	var got []string
	for _, k := range config.Keys() {
		if k.Live {
			got = append(got, k.Name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the table has %q, and the server takes over %q", got, want)
	}
}

// TestReload changes each key while the server runs, and looks for its effect.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := startOn(t, vfs.OS{}, dir)
		change := func(lines ...string) {
			t.Helper()
			text := "dataDir=" + dir + "\nclientPort=2181\n" + strings.Join(lines, "\n")
			cfg, _, err := config.Parse(strings.NewReader(text), "zoo.cfg")
			check(t, err)
			s.Reload(cfg)
		}
		admitted := func(ip string) bool {
			t.Helper()
			nc, err := s.net.dial(ip, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { nc.Close() })
			synctest.Wait()
			nc.SetReadDeadline(time.Now().Add(time.Second))
			_, err = nc.Read(make([]byte, 1))
			netErr, ok := err.(net.Error)
			return ok && netErr.Timeout()
		}
		c := s.connect(t)
		change("maxClientCnxns=1")
		if admitted("10.0.0.2") || !admitted("10.0.0.3") {
			t.Error("maxClientCnxns=1 has no effect")
		}
		change("maxCnxns=2")
		if admitted("10.0.0.4") {
			t.Error("maxCnxns=2 has no effect")
		}
		change()
		if !admitted("10.0.0.4") {
			t.Error("the limits stay")
		}

		change("maxClientCnxns=7", "4lw.commands.whitelist=conf")
		if text := s.ask(t, "conf", false); !strings.Contains(text, "maxClientCnxns=7\n") {
			t.Errorf("conf says:\n%s", text)
		}
		if text := s.ask(t, "mntr", false); !strings.Contains(text, "not in the whitelist") {
			t.Errorf("mntr says:\n%s", text)
		}

		before := s.metrics.Snapshot.Count()
		change("snapCount=2", "autopurge.snapRetainCount=5")
		for range 100 {
			c.set("/", strings.Repeat("x", 10_000))
			synctest.Wait()
		}
		if n := s.metrics.Snapshot.Count() - before; n < 20 {
			t.Errorf("%d snapshots of 100 writes with snapCount=2", n)
		}
		s.snapshots.purge()
		s.snapshots.mu.Lock()
		defer s.snapshots.mu.Unlock()
		if n := len(s.snapshots.mu.refs); n != 5 {
			t.Errorf("%d snapshots are kept, want 5", n)
		}
	})
}

// HandOver moves the lead, where there is one to move and a server to take it.
func TestHandOver(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		if e.servers[e.follower()].HandOver() {
			t.Error("a follower has handed over")
		}
		if !e.servers[leader].HandOver() {
			t.Error("the leader has not handed over")
		}
		e.settled()
		if now := e.leader(); now == leader {
			t.Errorf("server %d leads again", now)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if startServer(t).HandOver() {
			t.Error("a server alone has handed over")
		}
	})
}
