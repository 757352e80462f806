package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// adder is a client that increments a znode with many requests under way. Each increment
// expects the version that it finds: one that is done twice, not at all, or in another order
// makes a later one fail.
type adder struct {
	*client
	path      string
	sent, got int
}

func (e *testEnsemble) adder(t *testing.T, at int) *adder {
	t.Helper()
	c := &adder{client: e.servers[at].connectFor(t, 40_000), path: fmt.Sprintf("/count%d", at)}
	c.create(c.path, "0")
	return c
}

// add sends n increments, each followed by a sync and a read.
func (c *adder) add(n int) {
	c.t.Helper()
	for range n {
		c.send(jute.OpSetData, &jute.SetDataRequest{Path: c.path, Data: []byte("x"), Version: int32(c.sent)})
		c.send(jute.OpSync, &jute.SyncRequest{Path: c.path})
		c.send(jute.OpExists, &jute.PathWatchRequest{Path: c.path})
		c.sent++
	}
}

// answered takes the answers to all requests: one for each, in order, and each read shows the
// increments that precede it.
func (c *adder) answered() {
	c.t.Helper()
	for ; c.got < c.sent; c.got++ {
		var read reply
		for range 3 {
			xid := read.Xid + 1
			if read.Xid == 0 {
				xid = c.xid - int32(3*(c.sent-c.got)) + 1
			}
			if read = c.must(); read.Err != 0 || read.Xid != xid {
				c.t.Fatalf("%s: increment %d: got %v, want the answer to %d", c.path, c.got, read, xid)
			}
		}
		var stat jute.Stat
		d := jute.NewDecoder(read.body)
		stat.Decode(&d)
		if d.Err() != nil || stat.Version != int32(c.got+1) {
			c.t.Fatalf("%s: the read after increment %d shows version %d, %v", c.path, c.got, stat.Version, d.Err())
		}
	}
}

// cut cuts a server off from the others, or ends that.
func (e *testEnsemble) cut(id int, off bool) {
	for other := range e.servers {
		if other != id && e.servers[other] != nil {
			e.net.sever(id, other, off)
		}
	}
}

// lostLead are the ways in which servers lose their leader.
var lostLead = map[string]func(e *testEnsemble, leader int){
	"killed":      func(e *testEnsemble, leader int) { e.kill(leader) },
	"handed over": func(e *testEnsemble, leader int) { e.servers[leader].HandOver() },
	"cut off":     func(e *testEnsemble, leader int) { e.cut(leader, true) },
}

// TestConnectionsOutliveTheLeader has clients with requests under way while the leader goes. The
// connections of all servers that live stay, that of the former leader too if it comes back in
// time, and everything is answered.
func TestConnectionsOutliveTheLeader(t *testing.T) {
	for how, lose := range lostLead {
		t.Run(how, func(t *testing.T) {
			inBubble(t, 3, []string{"zkd.interlude=60000"}, func(t *testing.T, e *testEnsemble) {
				leader := e.leader()
				var adders []*adder
				for id, s := range e.servers {
					if s != nil && (id != leader || how != "killed") {
						adders = append(adders, e.adder(t, id))
					}
				}
				watcher := e.servers[e.follower()].connectFor(t, 40_000)
				watcher.ephemeral("/alive")
				watcher.call(jute.OpExists, &jute.PathWatchRequest{Path: "/event", Watch: true})
				for _, c := range adders {
					c.add(20)
				}
				synctest.Wait() // the requests are on their way
				lose(e, leader)
				for _, c := range adders {
					c.add(20)
				}
				if how == "cut off" {
					time.Sleep(10 * time.Second)
					e.cut(leader, false)
				}
				for _, c := range adders {
					c.add(20)
					c.answered()
				}
				adders[0].create("/event", "")
				if ev := watcher.must(); ev.Xid != jute.XidNotification {
					t.Errorf("got %v, want the event of a watch from before", ev)
				}
				if !watcher.exists("/alive") {
					t.Error("the ephemeral of a connection that stayed is gone")
				}
			})
		})
	}
}

// TestManyLeaders moves the lead again and again under load, also while the requests of the
// interlude before are not all answered.
func TestManyLeaders(t *testing.T) {
	inBubble(t, 3, []string{"zkd.interlude=60000"}, func(t *testing.T, e *testEnsemble) {
		var adders []*adder
		e.leader()
		for id, s := range e.servers {
			if s != nil {
				adders = append(adders, e.adder(t, id))
			}
		}
		for range 30 {
			for _, c := range adders {
				c.add(3)
			}
			for _, s := range e.servers {
				if s != nil {
					s.HandOver()
				}
			}
			time.Sleep(200 * time.Millisecond)
		}
		for _, c := range adders {
			c.answered()
		}
	})
}

// TestFlappingLink breaks a follower's links again and again while the leader stays.
func TestFlappingLink(t *testing.T) {
	inBubble(t, 3, []string{"zkd.interlude=60000"}, func(t *testing.T, e *testEnsemble) {
		follower, leader := e.follower(), e.leader()
		c, other := e.adder(t, follower), e.adder(t, leader)
		for range 30 {
			c.add(5)
			other.add(5)
			e.net.sever(follower, leader, true)
			c.add(5)
			e.net.sever(follower, leader, false)
			time.Sleep(200 * time.Millisecond)
		}
		c.answered()
		other.answered()
		if now := e.leader(); now != leader {
			t.Errorf("server %d leads instead of %d", now, leader)
		}
	})
}

// TestInterludeEnds: without a leader connections wait no longer than zkd.interlude, reads are
// answered while the lease lasts, and a session moves to another server meanwhile.
func TestInterludeEnds(t *testing.T) {
	inBubble(t, 3, []string{"zkd.interlude=5000"}, func(t *testing.T, e *testEnsemble) {
		leader, follower := e.leader(), e.follower()
		c := e.adder(t, follower)
		waits := e.servers[follower].connectFor(t, 40_000)
		idle := e.servers[follower].dial(t, dialOptions{})
		e.cut(follower, true)
		if !waits.exists(c.path) {
			t.Error("the lease has not ended, and a read finds nothing")
		}
		begin := time.Now()
		for e.servers[follower].service.serving.Load() {
			time.Sleep(10 * time.Millisecond)
		}
		ended := time.Since(begin)
		c.add(5)
		late := e.servers[follower].dial(t, dialOptions{})
		late.sendFrame((&jute.ConnectRequest{TimeoutMs: 40_000, Password: make([]byte, 16)}).Append(nil))
		late.eof("a new client of a server without a leader")
		moved := waits.resumeAt(t, e.servers[leader])
		moved.ephemeral("/moved")
		c.eof("a connection that has waited for zkd.interlude")
		if took := time.Since(begin) - ended; took < 4900*time.Millisecond || took > 5100*time.Millisecond {
			t.Errorf("the connections ended after %v", took)
		}
		waits.eof("a connection that has waited for zkd.interlude")
		idle.quiet("a connection that has sent nothing")
		e.cut(follower, false)
		e.settled()
		if v := moved.ok(jute.OpExists, &jute.PathWatchRequest{Path: c.path}); v.Err != 0 {
			t.Error(v)
		}
	})
}
