package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
)

func TestEnsembleServesWritesAndReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEnsemble(t, 3)
		leader := e.leader()
		follower := e.follower()
		c := e.servers[follower].connect(t)
		r := c.ok(jute.OpCreate, create("/a", "1", 0))
		if want := jute.MakeZxid(e.epoch(), 2); r.Zxid != want {
			t.Errorf("first write is %v, want %v, the next to the session's creation", r.Zxid, want)
		}
		d := e.servers[leader].connect(t)
		d.ok(jute.OpSync, &jute.SyncRequest{Path: "/"})
		d.ok(jute.OpGetData, &jute.PathWatchRequest{Path: "/a", Watch: true})
		c.ok(jute.OpSetData, &jute.SetDataRequest{Path: "/a", Data: []byte("2"), Version: -1})
		if ev := d.must(); ev.Xid != jute.XidNotification {
			t.Errorf("got %v, want the event", ev)
		}
		e.settled()
	})
}

func TestSessionOutlivesTheLeader(t *testing.T) {
	inBubble(t, 3, []string{"zkd.interlude=0"}, func(t *testing.T, e *testEnsemble) {
		follower, leader := e.follower(), e.leader()
		c := e.servers[follower].connect(t)
		c.ephemeral("/lock")
		c.create("/a", "1")
		e.kill(leader)
		c.eof("the connection to a follower that lost its leader")
		e.leader()
		c = c.resumeAt(t, e.servers[e.follower()])
		if c.session == 0 || !c.exists("/lock") {
			t.Fatalf("session %v or its ephemeral is gone with the leader", c.session)
		}
		c.set("/a", "2")
		e.start(leader)
		e.settled()
	})
}

func TestOnlySilenceExpiresSessions(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		follower := e.servers[e.follower()]
		alive, silent := follower.connectFor(t, 6000), follower.connectFor(t, 6000)
		alive.ephemeral("/alive")
		silent.ephemeral("/silent")
		begin := time.Now()
		watcher := e.servers[e.leader()].connectFor(t, 20_000)
		for gone := false; !gone; {
			time.Sleep(time.Second)
			alive.ping()
			watcher.ping()
			gone = !watcher.exists("/silent")
			switch took := time.Since(begin); {
			case gone && took < 6*time.Second:
				t.Fatalf("session of 6 s expired after %v", took)
			case !gone && took > 10*time.Second:
				t.Fatalf("session of 6 s is alive after %v", took)
			}
		}
		silent.eof("the connection of an expired session")
		for range 60 {
			time.Sleep(time.Second)
			alive.ping()
			watcher.ping()
		}
		if !alive.exists("/alive") {
			t.Error("a session that pinged has expired")
		}
		other := silent.resumeAt(t, e.servers[e.leader()])
		if other.session != 0 {
			t.Errorf("expired session was resumed as %v", other.session)
		}
	})
}

func TestNewLeaderGivesFullTimeouts(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		c := e.servers[e.follower()].connectFor(t, 6000)
		c.ephemeral("/e")
		time.Sleep(4 * time.Second)
		e.stop(e.leader())
		e.leader()
		time.Sleep(4 * time.Second) // 8 s after the last touch, 4 s into the new epoch
		if c = c.resumeAt(t, e.servers[e.leader()]); c.session == 0 {
			t.Error("the session expired before the new leader could hear of it")
		}
	})
}

func TestSessionMovesBetweenServers(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader, follower := e.leader(), e.follower()
		begin := time.Now()
		old := e.servers[follower].connect(t)
		old.create("/a", "1")
		c := old.resumeAt(t, e.servers[leader])
		if c.session != old.session {
			t.Fatalf("session %v became %v", old.session, c.session)
		}
		old.eof("the connection from which the session moved")
		c.set("/a", "2")
		back := c.resumeAt(t, e.servers[follower])
		c.eof("the connection to the leader from which the session moved")
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the connections from which the session moved were open for %v", took)
		}
		if v, _ := back.get("/a"); v != "2" {
			t.Errorf("after moving back the session reads %q, and it had written 2", v)
		}
	})
}

func TestClientAheadIsRefused(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader, follower := e.leader(), e.follower()
		for other := range e.servers {
			e.net.sever(follower, other, true)
		}
		c := e.servers[leader].connect(t)
		c.create("/a", "1")
		n := e.servers[follower].dial(t, dialOptions{})
		n.sendFrame((&jute.ConnectRequest{TimeoutMs: 10_000, LastZxidSeen: c.zxid, SessionID: c.session, Password: c.pass}).Append(nil))
		n.eof("a server that has seen less than its client")
	})
}

func TestIsolatedLeaderStepsDown(t *testing.T) {
	for _, how := range []string{"cut", "one-way out", "one-way in"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, 3, []string{"zkd.interlude=0"}, func(t *testing.T, e *testEnsemble) {
				old := e.leader()
				c := e.servers[old].connect(t)
				c.create("/a", "1")
				for id := 1; id <= 3; id++ {
					if id == old {
						continue
					}
					switch how {
					case "cut":
						e.net.sever(old, id, true)
					case "one-way out":
						e.net.swallow(old, id, true)
					case "one-way in":
						e.net.swallow(id, old, true)
					}
				}
				begin := time.Now()
				lost := c.send(jute.OpSetData, set("/a", "2"))
				c.eof("the connection to a leader without a quorum")
				if took := time.Since(begin); took > 2*time.Second {
					t.Errorf("a leader without a quorum served for %v", took)
				}
				now := e.leader()
				if now == old {
					t.Fatalf("server %d leads and has no quorum", old)
				}
				d := e.servers[now].connect(t)
				d.set("/a", "3")
				for id := 1; id <= 3; id++ {
					e.net.sever(old, id, false)
					e.net.swallow(old, id, false)
					e.net.swallow(id, old, false)
				}
				e.settled()
				if v, _ := e.servers[old].connect(t).get("/a"); v != "3" {
					t.Errorf("the old leader has %q, want 3 (request %d was lost)", v, lost)
				}
			})
		})
	}
}

func TestSyncIsABarrier(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		w, r := e.servers[e.leader()].connect(t), e.servers[e.follower()].connect(t)
		w.create("/a", "0")
		for i := range 50 {
			w.set("/a", fmt.Sprint(i))
			r.send(jute.OpSync, &jute.SyncRequest{Path: "/"})
			got := r.send(jute.OpGetData, get("/a", false))
			r.must()
			if v := dataOf(r.await(got)); v != fmt.Sprint(i) {
				t.Fatalf("read %q behind sync, and %d had been written", v, i)
			}
		}
	})
}

func TestSyncKeepsItsPlaceAmongWrites(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		c := e.servers[e.follower()].connect(t)
		c.create("/a", "")
		var xids []int32
		for i := range 100 {
			xids = append(xids, c.send(jute.OpSetData, set("/a", fmt.Sprint(i))),
				c.send(jute.OpSync, &jute.SyncRequest{Path: "/a"}), c.send(jute.OpGetData, get("/a", false)))
		}
		for i, xid := range xids {
			r := c.must()
			if r.Xid != xid {
				t.Fatalf("reply %d is to request %d, want %d", i, r.Xid, xid)
			}
			if i%3 == 2 && dataOf(r) != fmt.Sprint(i/3) {
				t.Fatalf("read %q behind write %d", dataOf(r), i/3)
			}
		}
	})
}

func TestObserver(t *testing.T) {
	inBubble(t, 3, []string{"server.4=10.0.0.4:2888:3888:observer"}, func(t *testing.T, e *testEnsemble) {
		e.disks = append(e.disks, crashfs.New(4))
		e.servers = append(e.servers, nil)
		o := e.start(4)
		e.settled()
		if word := o.ask(t, "srvr", false); !strings.Contains(word, "Mode: observer\n") {
			t.Errorf("srvr: %s", word)
		}
		c := o.connect(t)
		c.create("/a", "1")
		c.ok(jute.OpSync, &jute.SyncRequest{Path: "/"})
		if v, _ := c.get("/a"); v != "1" {
			t.Errorf("read %q from the observer", v)
		}
		// It does not count: with two voters gone, no server leads.
		leader := e.leader()
		for id := 1; id <= 3; id++ {
			if id != leader {
				e.stop(id)
			}
		}
		c.eof("the connection to an observer without a leader")
	})
}

func TestLeaderWithoutClients(t *testing.T) {
	inBubble2(t, 3, []string{"leaderServes=no"}, func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		n := e.servers[leader].dial(t, dialOptions{})
		n.sendFrame((&jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16)}).Append(nil))
		n.eof("a leader that does not serve")
		e.servers[e.follower()].connect(t).create("/a", "1")
	})
}

func TestReadOnlyMode(t *testing.T) {
	inBubble(t, 3, []string{"readonlymode.enabled=true"}, func(t *testing.T, e *testEnsemble) {
		c := e.servers[1].connect(t)
		c.create("/a", "1")
		e.settled()
		e.stop(2)
		e.stop(3)
		time.Sleep(5 * time.Second)
		s := e.servers[1]
		if word := s.ask(t, "isro", false); word != "ro" {
			t.Errorf("isro: %q", word)
		}
		n := s.dial(t, dialOptions{})
		resp := n.establish(&jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true, ReadOnly: true})
		if !resp.ReadOnly || resp.SessionID == 0 {
			t.Fatalf("connect response %+v", resp)
		}
		if v, _ := n.get("/a"); v != "1" {
			t.Errorf("read %q", v)
		}
		for _, op := range []struct {
			op   jute.OpCode
			body record
		}{{jute.OpSetData, set("/a", "2")}, {jute.OpSync, &jute.SyncRequest{Path: "/"}}} {
			if r := n.call(op.op, op.body); r.Err != jute.ErrNotReadOnly {
				t.Errorf("%v: %v, want NOTREADONLY", op.op, r.Err)
			}
		}
		rw := s.dial(t, dialOptions{})
		rw.sendFrame((&jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true}).Append(nil))
		rw.eof("a client that wants to write")
		e.start(2)
		n.eof("the read-only connection, now that there is a leader")
		e.settled()
		if word := s.ask(t, "isro", false); word != "rw" {
			t.Errorf("isro: %q", word)
		}
	})
}

func TestLocalSessions(t *testing.T) {
	inBubble(t, 3, []string{"localSessionsEnabled=true", "localSessionsUpgradingEnabled=true"}, func(t *testing.T, e *testEnsemble) {
		s := e.servers[e.follower()]
		before := s.state.Applied()
		c := s.connect(t)
		if s.state.Applied() != before {
			t.Error("a local session took a transaction")
		}
		c.create("/a", "1")
		if other := c.resumeAt(t, e.servers[e.leader()]); other.session != 0 {
			t.Error("a local session was resumed on another server")
		}
		c.ephemeral("/e") // makes it global
		if other := c.resumeAt(t, e.servers[e.leader()]); other.session != c.session {
			t.Error("an upgraded session was not resumed on another server")
		}
		c.eof("the old connection")
	})
}

func TestLocalSessionCannotOwn(t *testing.T) {
	inBubble(t, 3, []string{"localSessionsEnabled=true"}, func(t *testing.T, e *testEnsemble) {
		c := e.servers[e.follower()].connect(t)
		if r := c.call(jute.OpCreate, create("/e", "", jute.ModeEphemeral)); r.Err != jute.ErrEphemeralOnLocalSession {
			t.Errorf("ephemeral of a local session: %v", r.Err)
		}
		c.ok(jute.OpCloseSession, nil)
		c.eof("a closed session")
	})
}

func TestLinearizableReads(t *testing.T) {
	inBubble(t, 3, []string{"zkd.linearizableReads=true"}, func(t *testing.T, e *testEnsemble) {
		w, r := e.servers[e.leader()].connect(t), e.servers[e.follower()].connect(t)
		w.create("/a", "0")
		for i := range 50 {
			w.set("/a", fmt.Sprint(i))
			if v, _ := r.get("/a"); v != fmt.Sprint(i) {
				t.Fatalf("read %q, and %d had been written", v, i)
			}
		}
	})
}

// lagging makes a follower lag by holding up the leader's messages to it. Meanwhile
// another value is written to /a, and the write is answered. r reads at the follower.
func lagging(t *testing.T, e *testEnsemble) (r *client, release func()) {
	t.Helper()
	follower, leader := e.follower(), e.leader()
	r = e.servers[follower].connect(t)
	w := e.servers[leader].connect(t)
	w.create("/a", "old")
	e.settled() // the follower has it
	release = e.net.hold(leader, follower)
	w.set("/a", "new")
	if v, _ := w.get("/a"); v != "new" {
		t.Fatalf("the leader answers %q", v)
	}
	return r, release
}

// A follower answers reads from its own state. A sync before the read waits for the
// leader's state.
func TestStaleRead(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		r, release := lagging(t, e)
		if v, _ := r.get("/a"); v != "old" {
			t.Errorf("a follower that lags answers %q, want the old value", v)
		}
		r.send(jute.OpSync, &jute.SyncRequest{Path: "/"})
		read := r.send(jute.OpGetData, get("/a", false))
		synctest.Wait()
		r.quiet("a sync at a follower that lags")
		release()
		r.must() // the sync
		if v := dataOf(r.await(read)); v != "new" {
			t.Errorf("after a sync the follower answers %q", v)
		}
	})
}

// With zkd.linearizableReads no read is stale: one at a follower that lags waits.
func TestLinearizableReadIsNotStale(t *testing.T) {
	inBubble(t, 3, []string{"zkd.linearizableReads=true"}, func(t *testing.T, e *testEnsemble) {
		r, release := lagging(t, e)
		read := r.send(jute.OpGetData, get("/a", false))
		synctest.Wait()
		r.quiet("a read at a follower that lags")
		release()
		if v := dataOf(r.await(read)); v != "new" {
			t.Errorf("the follower answers %q", v)
		}
	})
}

// /zookeeper/config shows the members on all servers.
func TestConfigNode(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		want := "server.1=10.0.0.1:2888:3888:participant\nserver.2=10.0.0.2:2888:3888:participant\nserver.3=10.0.0.3:2888:3888:participant\nversion=100000000"
		for id := 1; id <= 3; id++ {
			if v, _ := e.servers[id].connect(t).get("/zookeeper/config"); v != want {
				t.Errorf("server %d: configuration is %q, want %q", id, v, want)
			}
		}
	})
}
