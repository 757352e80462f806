package cluster

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// campaign is an ensemble that goes from one fault to the next, and the clients
// that live with it.
type campaign struct {
	testing.TB
	rng      *rand.Rand
	e        *ensemble
	began    time.Time
	clients  []*client
	flies    []*mayfly
	rounds   int
	marked   int64 // when the fault of the round began
	shortage shortage

	kept struct { // of the round before
		prefix string
		nodes  map[string]process.Node
	}
	sum     totals
	changes changes
}

// totals are figures of all rounds.
type totals struct {
	ops, acknowledged, unanswered, linearizable, resumed, events int
	gaps                                                         map[string][]time.Duration // by fault
}

// workers is the number of clients.
const workers = 6

// newCampaign starts an ensemble.
func newCampaign(t testing.TB, of shape) *campaign {
	t.Helper()
	c := &campaign{TB: t, rng: newRand(t), e: newEnsemble(t, of), began: time.Now()}
	c.sum.gaps = make(map[string][]time.Duration)
	c.e.start()
	c.e.awaitAll()
	seed := c.rng.Uint64()
	for id := range workers {
		k := newClient(id, seed, c.began, c.e.addrs())
		k.pace = 8 * time.Millisecond
		c.clients = append(c.clients, k)
	}
	t.Cleanup(func() {
		c.Logf("counts: rounds=%d operations=%d acknowledged=%d", c.rounds, c.sum.ops, c.sum.acknowledged)
	})
	return c
}

func (c *campaign) now() int64 { return int64(time.Since(c.began)) }

// wait lets time pass for the clients.
func (c *campaign) wait(d time.Duration) { <-time.After(d) }

// between returns a random duration. An ordinary run has no time for long ones.
func (c *campaign) between(least, most time.Duration) time.Duration {
	if *only == "" {
		most = min(most, least+1500*time.Millisecond)
	}
	return least + time.Duration(c.rng.Int64N(int64(most-least)))
}

// mark notes that the fault begins.
func (c *campaign) mark() { c.marked = c.now() }

// round has the clients work under a fault, heals the ensemble, and checks.
func (c *campaign) round(f fault) {
	c.Helper()
	c.rounds++
	prefix := fmt.Sprintf("/r%d", c.rounds)
	before := c.prepare(prefix)
	if c.Failed() {
		return
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, k := range c.clients {
		k.begin(prefix)
		wg.Go(func() { k.run(stop) })
	}
	c.flies = nil
	for id := range 3 {
		m := newMayfly(id, c.rng.Uint64(), c.began, c.e.addrs(), prefix)
		c.flies = append(c.flies, m)
		wg.Go(func() { m.run(stop) })
	}
	c.wait(c.between(200*time.Millisecond, 500*time.Millisecond))
	c.mark()
	f.run(c)
	c.e.net.heal()
	c.awaitWrite()
	c.wait(c.between(100*time.Millisecond, 300*time.Millisecond))
	close(stop)
	wg.Wait()
	c.e.start()
	c.e.awaitAll()
	c.check(f, prefix, before)
	if c.Failed() {
		c.Logf("round %d: the fault was %s", c.rounds, f.name)
	}
}

// admin does an op at any server, again and again until it is done.
func (c *campaign) admin(ops ...*op) (last jute.Zxid) {
	c.Helper()
	var err error
	if !process.Poll(func() bool {
		last, err = c.try(ops)
		return err == nil
	}) {
		c.Fatalf("%v: %v; roles are %q", ops[0], err, c.e.modes())
	}
	return last
}

func (c *campaign) try(ops []*op) (last jute.Zxid, err error) {
	conn, err := dial(c.e.servers[c.rng.IntN(len(c.e.servers))].addr, jute.ConnectRequest{TimeoutMs: 10_000}, silence)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	for _, o := range append(ops, &op{code: jute.OpCloseSession}) {
		if err := conn.do(o); err != nil && err != jute.ErrNodeExists && err != jute.ErrNoNode {
			return 0, fmt.Errorf("%v: %w", o, err)
		}
		last = o.zxid
	}
	return last, nil
}

// prepare makes the nodes that a round begins with, and removes those of the
// round before the last.
func (c *campaign) prepare(prefix string) (before jute.Zxid) {
	return c.admin(append(skeleton(prefix), &op{code: jute.OpCreate2, path: prefix + "/may"})...)
}

// awaitWrite waits until a write is acknowledged.
func (c *campaign) awaitWrite() {
	c.Helper()
	c.admin(&op{code: jute.OpCreate2, path: fmt.Sprintf("/alive%d", c.rounds)}, &op{code: jute.OpDelete, path: fmt.Sprintf("/alive%d", c.rounds), version: -1})
}

// check reads the whole tree of each server and looks at all that the clients have
// seen.
func (c *campaign) check(f fault, prefix string, before jute.Zxid) {
	c.Helper()
	for _, s := range c.e.servers {
		if err := awaitGone(s, prefix); err != nil {
			c.Error(err)
			return
		}
	}
	worlds := c.converge()
	if c.Failed() {
		return
	}
	h := collect(prefix, before, c.clients)
	h.lack(c.shortage)
	c.shortage = shortage{}
	for _, m := range c.flies {
		if m.life != nil {
			h.lives[m.life.id] = m.life
			c.sum.resumed += m.resumed
		}
	}
	for _, k := range c.clients {
		if k.err != nil {
			c.Error(k.err)
		}
	}
	looked := c.judge(h, worlds)
	c.checkKept(prefix, worlds[0])
	c.report(f, h, looked)
}

// converge reads the worlds of all servers until they are equal: sessions of
// others may still be ending.
func (c *campaign) converge() (worlds []*world) {
	c.Helper()
	var problem string
	if !process.Poll(func() bool {
		worlds, problem = nil, ""
		for _, s := range c.e.servers {
			w, err := readWorld(s)
			if err != nil {
				problem = fmt.Sprintf("server %d: %v", s.id, err)
				return false
			}
			worlds = append(worlds, w)
			if problem = worlds[0].difference(w); problem != "" {
				return false
			}
		}
		return true
	}) {
		c.Errorf("the servers do not come to the same tree: %s", problem)
	}
	return worlds
}

// judge runs all checkers.
func (c *campaign) judge(h *history, worlds []*world) (looked int) {
	c.Helper()
	var reads []*op
	for _, w := range worlds {
		reads = append(reads, w.reads(h.prefix)...)
	}
	l := newLedger(h, withoutMayflies(h, reads))
	c.tell("ledger", l.check())
	for _, o := range withoutMayflies(h, reads) {
		l.found = nil
		l.checkRead(o)
		c.tell("final state", l.found)
	}
	c.tell("order", checkOrder(h))
	c.tell("watches", checkWatches(l))
	c.tell("presence", checkPresence(l, worlds[0]))
	c.tell("expiry", checkExpiry(h, slack()))
	c.tell("mayflies", checkMayflies(h, c.flies, slack()))
	linear, looked := checkLinearizable(h)
	c.tell("linearizability", linear)
	return looked
}

func withoutMayflies(h *history, reads []*op) (list []*op) {
	for _, o := range reads {
		if !strings.HasPrefix(o.path, h.prefix+"/may") {
			list = append(list, o)
		}
	}
	return list
}

// slack is how much before its time a session may end whose client has only read
// and pinged. Apache's servers answer clients when they can't tell the leader of
// them.
func slack() time.Duration {
	if apache() {
		return 10*tick*time.Millisecond + time.Second
	}
	return 5 * time.Millisecond // times are taken in whole ms
}

func (c *campaign) tell(checker string, f findings) {
	c.Helper()
	for _, s := range f {
		c.Errorf("round %d, %s: %s", c.rounds, checker, s)
	}
}

// checkKept checks that what the round before has left is still there, then removes
// it.
func (c *campaign) checkKept(prefix string, w *world) {
	c.Helper()
	now := w.below(c.kept.prefix)
	for p, n := range c.kept.nodes {
		have, ok := now[p]
		// Ephemerals below a node may have gone.
		a, b := n.Stat, have.Stat
		a.Cversion, a.NumChildren, a.Pzxid = b.Cversion, b.NumChildren, b.Pzxid
		if !ok || have.Data != n.Data || a != b {
			c.Errorf("%s was %+v after the round before, and is %+v (%v)", p, n, have, ok)
		}
	}
	if c.kept.prefix != "" {
		c.remove(w, c.kept.prefix)
	}
	c.kept.prefix, c.kept.nodes = prefix, w.below(prefix)
}

// remove deletes a part of the tree.
func (c *campaign) remove(w *world, prefix string) {
	c.Helper()
	deepest := 0
	levels := make(map[int][]*op)
	for p := range w.nodes {
		if p == prefix || strings.HasPrefix(p, prefix+"/") {
			depth := strings.Count(p, "/")
			deepest = max(deepest, depth)
			levels[depth] = append(levels[depth], &op{code: jute.OpDelete, path: p, version: -1})
		}
	}
	var all []*op
	for depth := deepest; depth > 0; depth-- {
		all = append(all, levels[depth]...)
	}
	c.admin(all...)
}

func (c *campaign) report(f fault, h *history, looked int) {
	gap := time.Duration(h.longestGap(c.marked)).Round(100 * time.Microsecond)
	c.sum.gaps[f.name] = append(c.sum.gaps[f.name], gap)
	c.sum.ops += len(h.ops)
	c.sum.acknowledged += h.acknowledged()
	c.sum.unanswered += h.count(unknown)
	c.sum.linearizable += looked
	events := 0
	for _, log := range h.logs {
		for _, fr := range log.frames {
			if fr.kind == anEvent {
				events++
			}
		}
	}
	c.sum.events += events
	c.Logf("round %d, %s: %d ops, %d writes acknowledged, %d ops without answer, %d events, %d connections, %d ops for Porcupine; longest time without a write %v",
		c.rounds, f.name, len(h.ops), h.acknowledged(), h.count(unknown), events, len(h.logs), looked, gap)
}
