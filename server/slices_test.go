package server

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
)

// ephemerals creates n ephemerals below dir.
func (c *client) ephemerals(dir string, n int) {
	c.t.Helper()
	for i := 0; i < n; {
		var m jute.MultiRequest
		for ; i < n && len(m.Ops) < 10_000; i++ {
			m.Ops = append(m.Ops, jute.MultiOp{Type: jute.OpCreate, Path: dir + "/" + strconv.Itoa(i), ACL: openACL, Mode: jute.ModeEphemeral})
		}
		c.ok(jute.OpMulti, &m)
	}
}

// Neither the end of a session with very many ephemerals nor its evaluation may hold the
// tree for long, or keep the peer loop from sending heartbeats. The test counts nodes,
// not time.
func TestTheEndOfALargeSessionHoldsNothingForLong(t *testing.T) {
	for _, closes := range []string{"by its client", "by its timeout"} {
		t.Run(closes, func(t *testing.T) {
			inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
				const nodes = 25_000
				leader, s := e.servers[e.leader()], e.servers[e.follower()]
				watcher, c := s.connectFor(t, 20_000), s.connectFor(t, 4000)
				watcher.create("/many", "")
				c.ephemerals("/many", nodes)
				watcher.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/many", Mode: jute.AddPersistentRecursive})
				e.settled()
				for _, s := range e.servers[1:] {
					s.metrics.ApplyWork.Reset()
					s.metrics.TurnWork.Reset()
				}
				if closes == "by its client" {
					c.send(jute.OpCloseSession, nil)
				}
				var zxid jute.Zxid
				for i := range nodes {
					ev := watcher.must()
					if zxid = max(zxid, ev.Zxid); ev.Zxid != zxid || ev.event().Type != jute.EventDeleted {
						t.Fatalf("event %d: %v, want NodeDeleted with the zxid %v of the close", i, ev, zxid)
					}
				}
				e.settled()
				if watcher.exists("/many/7") {
					t.Error("an ephemeral outlives its session")
				}
				// Each delete is two events, and one delivery to the watcher.
				for id, s := range e.servers[1:] {
					if most := s.metrics.ApplyWork.Max(); most > applyWork+3*partOps+10 {
						t.Errorf("server %d changed and delivered %d under one hold of the lock", id+1, most)
					}
				}
				if most := leader.metrics.TurnWork.Max(); most > 100 {
					t.Errorf("the leader's evaluation of the close was %d operations", most)
				}
				e.idle()
				for _, s := range e.servers[1:] {
					s.noErrors(t)
				}
			})
		})
	}
}

// Requests after such a close wait until it is applied, and are evaluated correctly.
func TestRequestsBehindALargeClose(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		s := e.servers[e.leader()]
		other, c := s.connect(t), s.connect(t)
		other.create("/many", "")
		c.ephemerals("/many", 12_000)
		other.sendFrame(requestFrame(jute.XidPing, jute.OpPing, nil))
		other.await(jute.XidPing)
		c.send(jute.OpCreate, create("/many/late", "", jute.ModeEphemeral)) // pending when the close is evaluated
		c.send(jute.OpCloseSession, nil)
		synctest.Wait()
		other.expect(
			expected{op: jute.OpCreate, body: create("/many/late", "", 0)},
			expected{op: jute.OpDelete, body: del("/many"), err: jute.ErrNotEmpty},
			expected{op: jute.OpDelete, body: del("/many/late")},
			expected{op: jute.OpDelete, body: del("/many")},
		)
		e.idle()
		s.noErrors(t)
	})
}

// No client sees a part of a close: each reply shows the state of its zxid, on the server
// of the session and elsewhere, while writes and reads continue.
func TestALargeCloseIsSeenAsAWhole(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		const nodes = 11_000
		c := e.servers[e.leader()].connect(t)
		c.create("/many", "")
		c.create("/other", "")
		c.ephemerals("/many", nodes)
		e.settled()
		var readers sync.WaitGroup
		begun := make(chan struct{})
		closed := make(chan jute.Zxid, 1)
		for id := 1; id <= 3; id++ {
			r := e.servers[id].connect(t)
			readers.Go(func() {
				<-begun
				lastFull, firstEmpty := jute.Zxid(0), jute.Zxid(0)
				for firstEmpty == 0 {
					list := r.ok(jute.OpGetChildren, get("/many", false))
					if !r.exists("/other") || r.call(jute.OpSetData, set("/other", "x")).Err != 0 {
						t.Error("a node of somebody else is gone")
					}
					d := jute.NewDecoder(list.body)
					switch n := d.Int32(); n {
					case nodes:
						lastFull = list.Zxid
					case 0:
						firstEmpty = list.Zxid
					default:
						t.Errorf("server %d shows %d of %d ephemerals at %v", id, n, nodes, list.Zxid)
						return
					}
				}
				z := <-closed
				closed <- z
				if lastFull >= z || firstEmpty < z {
					t.Errorf("server %d shows all ephemerals at %v and none at %v; the close is %v", id, lastFull, firstEmpty, z)
				}
			})
		}
		close(begun)
		r := c.ok(jute.OpCloseSession, nil)
		closed <- r.Zxid
		readers.Wait()
		e.settled()
	})
}

// Between two slices only the requests wait whose answer could show a part.
func TestRequestsBetweenTwoSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		owner, c := s.connect(t), s.connect(t)
		for _, dir := range []string{"/a", "/b"} {
			c.create(dir, "")
			c.create(dir+"/stays", "")
		}
		for i := range 3 {
			owner.ephemeral(fmt.Sprint("/a/", i))
			owner.ephemeral(fmt.Sprint("/b/", i))
		}
		var waiters []*client
		for range 8 {
			waiters = append(waiters, s.connect(t))
		}
		last := s.state.Applied()
		// The test takes the applier's place: it is idle.
		synctest.Wait()
		a := newApplier(s.Server)
		txn := datatree.Txn{Zxid: last + 1, Session: owner.session, Ops: []datatree.Op{{Kind: datatree.OpCloseSession}}}
		a.state.Tree.List(&txn)
		a.lock()
		a.state.BeginSlices()
		if !a.state.Tree.ApplyPart(&txn, &a.out, 3) { // those below /a
			t.Fatal("nothing to prune")
		}
		a.unlock()
		c.ping()
		for _, path := range []string{"/b", "/b/0", "/b/stays", "/b/none", "/a/stays", "/"} {
			if r := c.call(jute.OpExists, get(path, false)); r.Zxid != last || (r.Err == jute.ErrNoNode) != (path == "/b/none") {
				t.Errorf("%s between two slices: %v", path, r)
			}
		}
		waiting := map[*client]string{}
		for what, req := range map[string]struct {
			op   jute.OpCode
			body record
		}{
			"a node that is deleted":        {jute.OpExists, get("/a/0", false)},
			"a node that never was":         {jute.OpExists, get("/a/none", true)},
			"the parent":                    {jute.OpGetData, get("/a", false)},
			"the parent's children":         {jute.OpGetChildren2, get("/a", false)},
			"the parent's ACL":              {jute.OpGetACL, &jute.PathRequest{Path: "/a"}},
			"a number of descendants":       {jute.OpGetAllChildrenNumber, &jute.PathRequest{Path: "/"}},
			"a list of watches to be set":   {jute.OpSetWatches, &jute.SetWatchesRequest{RelativeZxid: 1 << 40, Child: []string{"/b"}}},
			"a watch for all that is below": {jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.AddPersistentRecursive}},
		} {
			w := waiters[0]
			waiters = waiters[1:]
			w.send(req.op, req.body)
			waiting[w] = what
		}
		synctest.Wait()
		for w, what := range waiting {
			w.quiet(what + " between two slices")
		}
		a.lock()
		a.state.Tree.Apply(&txn, &a.out)
		a.state.SetApplied(txn.Zxid)
		a.state.EndSlices()
		a.unlock()
		for w, what := range waiting {
			if r := w.must(); r.Zxid != txn.Zxid && r.Zxid != 0 {
				t.Errorf("%s after the last slice: %v", what, r)
			}
		}
	})
}

// The search for removable nodes looks at a bounded number of nodes at a time.
func TestTheCleanerHoldsTheTreeForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := s.connectFor(t, 20_000)
		const nodes = 3*expireSlice + 10
		for i := 0; i < nodes; {
			var m jute.MultiRequest
			for ; i < nodes && len(m.Ops) < 1000; i++ {
				m.Ops = append(m.Ops, jute.MultiOp{Type: jute.OpCreateTTL, Path: fmt.Sprint("/", i), ACL: openACL, Mode: jute.ModePersistentTTL, TTL: 1})
			}
			c.ok(jute.OpMulti, &m)
		}
		time.Sleep(time.Second)
		var cursor datatree.ExpiryCursor
		var due []evaluate.Removal
		clean, total, slices := newCleaner(s.Server), 0, 0
		for more := true; more; slices++ {
			due, more = clean.dueForRemoval(&cursor, due[:0])
			if total += len(due); len(due) > expireSlice {
				t.Errorf("%d nodes under one hold of the lock", len(due))
			}
		}
		if total != nodes || slices < nodes/expireSlice {
			t.Errorf("%d nodes in %d slices, want %d", total, slices, nodes)
		}
	})
}

// However many requests clients have sent, the leader evaluates a bounded part of them
// before it handles its heartbeats.
func TestATurnOfTheLeaderIsShort(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		s := e.servers[e.leader()]
		var m jute.MultiRequest
		const ops = 3000
		for range ops {
			m.Ops = append(m.Ops, jute.MultiOp{Type: jute.OpSetData, Path: "/", Version: -1})
		}
		clients := map[*client][]int32{}
		for range 5 {
			clients[s.connect(t)] = nil
		}
		s.metrics.TurnWork.Reset()
		release := e.stallDisks()
		for c := range clients {
			for range 20 {
				clients[c] = append(clients[c], c.send(jute.OpMulti, &m))
			}
		}
		synctest.Wait()
		e.bounded()
		release()
		for c, xids := range clients {
			c.replies(xids)
		}
		one := int64(ops + len(m.Append(nil))/64)
		if most := s.metrics.TurnWork.Max(); int64(most) > replica.EvaluateWork+one {
			t.Errorf("%d operations were evaluated in one turn", most)
		}
		if n := s.metrics.TurnWork.Count(); n < 100*ops/(replica.EvaluateWork+one) {
			t.Errorf("only %d turns", n)
		}
		e.idle()
	})
}

// What a request looks at counts in a turn, also if it is refused: many short ones must not keep the leader
// from its heartbeats either.
func TestRefusedRequestsCountInATurn(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		const limit, requests = 2000, 30
		s := e.servers[e.leader()]
		c := s.connect(t)
		c.create("/wide", "")
		var m jute.MultiRequest
		for i := range limit + 10 {
			m.Ops = append(m.Ops, jute.MultiOp{Type: jute.OpCreate, Path: "/wide/" + strconv.Itoa(i), ACL: openACL})
		}
		c.ok(jute.OpMulti, &m)
		e.settled()
		s.metrics.TurnWork.Reset()
		release := e.stallDisks()
		var xids []int32
		for range requests {
			xids = append(xids, c.send(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{
				{Type: jute.OpDeleteTree, Path: "/wide", Version: -1, Limit: limit}}}))
		}
		synctest.Wait()
		release()
		c.replies(xids)
		if most := int64(s.metrics.TurnWork.Max()); most < limit || most > replica.EvaluateWork+limit+10 {
			t.Errorf("the most work in a turn was %d", most)
		}
		if n := s.metrics.TurnWork.Count(); n < requests/3 {
			t.Errorf("only %d turns", n)
		}
		e.idle()
	})
}

// A transaction with many operations, of which each has many watchers, holds the tree for a bounded number of changes
// and deliveries at a time. Nobody sees a part of it, and its events come before its effects are seen.
func TestALargeMultiHoldsNothingForLong(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		const sets, watchers, step = 400, 60, 2 * firstPart
		s := e.servers[e.follower()]
		c := s.connect(t)
		c.create("/a", "")
		c.create("/b", "")
		var m jute.MultiRequest
		for i := range sets {
			m.Ops = append(m.Ops, jute.MultiOp{Type: jute.OpSetData, Path: []string{"/a", "/b"}[i%2], Data: []byte(strconv.Itoa(i / 2)), Version: -1})
		}
		var heard []*client
		for range watchers {
			w := s.connect(t)
			w.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/a", Mode: jute.AddPersistent})
			heard = append(heard, w)
		}
		e.settled()
		for _, s := range e.servers[1:] {
			s.metrics.ApplyWork.Reset()
		}
		xid := c.send(jute.OpMulti, &m)
		both := &jute.MultiRequest{Ops: []jute.MultiOp{{Type: jute.OpGetData, Path: "/a"}, {Type: jute.OpGetData, Path: "/b"}}}
		r := s.connect(t)
		for last := strconv.Itoa(sets/2 - 1); ; {
			var seen jute.MultiResponse
			d := jute.NewDecoder(r.ok(jute.OpMultiRead, both).body)
			seen.Decode(&d)
			a, b := string(seen.Results[0].Data), string(seen.Results[1].Data)
			if a != b || a != "" && a != last {
				t.Fatalf("a part of the transaction is seen: %q and %q", a, b)
			}
			if a == last {
				break
			}
		}
		c.await(xid)
		for _, w := range heard {
			for range sets / 2 {
				w.must()
			}
			w.quiet("after all events")
		}
		for id, s := range e.servers[1:] {
			if most := s.metrics.ApplyWork.Max(); most > 3*applyWork+step*watchers {
				t.Errorf("server %d changed and delivered %d under one hold of the lock", id+1, most)
			}
		}
		if n := s.metrics.ApplyWork.Count(); n < sets*watchers/2/(3*applyWork+step*watchers) {
			t.Errorf("only %d holds of the lock", n)
		}
		e.idle()
	})
}

// An event with very many watchers is sent in slices of the tree's lock. Each of them has it before it sees the change, and
// hears of it once, also of the last operations of a transaction, and of the end of a session.
func TestAHerdIsToldInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const herd, readers = applyWork + 1200, 4
		s := startServer(t, "maxClientCnxns=0")
		c, owner := s.connect(t), s.connect(t)
		c.create("/herd", "")
		owner.ephemeral("/herd/e")
		var watchers []*client
		for range herd {
			w := s.connect(t)
			w.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/herd", Mode: jute.AddPersistentRecursive})
			watchers = append(watchers, w)
		}
		set := func(path string) jute.MultiOp { return jute.MultiOp{Type: jute.OpSetData, Path: path, Version: -1} }
		for _, tt := range []struct {
			name   string
			change func() jute.Zxid
			events []jute.EventType
		}{
			{"a set", func() jute.Zxid { return c.set("/herd", "1").Zxid }, []jute.EventType{jute.EventDataChanged}},
			{"a multi", func() jute.Zxid {
				return c.ok(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{set("/"), set("/herd"), set("/herd/e")}}).Zxid
			}, []jute.EventType{jute.EventDataChanged, jute.EventDataChanged}},
			{"the end of a session", func() jute.Zxid { return owner.ok(jute.OpCloseSession, nil).Zxid }, []jute.EventType{jute.EventDeleted}},
		} {
			synctest.Wait()
			s.metrics.ApplyWork.Reset()
			look := func(w *client) string { return string(w.ok(jute.OpExists, get("/herd", false)).body) }
			before := look(c)
			var reads sync.WaitGroup
			for _, w := range watchers[:readers] {
				reads.Go(func() {
					for look(w) == before {
					}
					if len(w.events) != len(tt.events) {
						t.Errorf("%s is seen after %d events", tt.name, len(w.events))
					}
				})
			}
			zxid := tt.change()
			reads.Wait()
			for i, w := range watchers {
				for len(w.events) < len(tt.events) {
					w.events = append(w.events, w.must())
				}
				for j, r := range w.events {
					if r.Xid != jute.XidNotification || r.Zxid != zxid || r.event().Type != tt.events[j] {
						t.Fatalf("%s: watcher %d gets %v", tt.name, i, r)
					}
				}
				w.events = nil
			}
			if most := s.metrics.ApplyWork.Max(); most > applyWork+1024+10 {
				t.Errorf("%s: %d watchers were told under one hold of the lock", tt.name, most)
			}
		}
		for _, w := range watchers {
			w.quiet("after all events")
		}
		s.noErrors(t)
	})
}
