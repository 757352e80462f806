package server

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// counter is a client with its own node. It counts up there, and after each fault it
// checks which of its writes remain.
type counter struct {
	t       *testing.T
	e       *testEnsemble
	rng     *rand.Rand
	path    string
	c       *client
	acked   int // the highest number that was acknowledged
	tried   int // the highest number that it tried to write
	expired int
}

// attach connects the client: to its session, or with a new one.
func (n *counter) attach() bool {
	s := n.e.up(n.rng)
	if s == nil {
		return false
	}
	nc, err := s.net.dial("10.0.0.2", 1<<20)
	if err != nil {
		return false
	}
	next := &client{t: n.t, nc: nc, srv: s, in: newFrames(nc)}
	r := jute.ConnectRequest{TimeoutMs: 20_000, Password: make([]byte, 16), HasReadOnly: true}
	if n.c != nil {
		n.c.nc.Close()
		r.SessionID, r.Password, r.LastZxidSeen = n.c.session, n.c.pass, n.c.zxid
		next.zxid = n.c.zxid
	}
	if _, err := nc.Write(frameOf(r.Append(nil))); err != nil {
		nc.Close()
		return false
	}
	nc.SetReadDeadline(time.Now().Add(5 * time.Second))
	frame, err := next.frame()
	nc.SetReadDeadline(time.Time{})
	if err != nil {
		nc.Close()
		return false
	}
	var resp jute.ConnectResponse
	d := jute.NewDecoder(frame)
	resp.Decode(&d)
	if resp.SessionID == 0 {
		n.expired++
		n.c = nil // the session is gone
		nc.Close()
		return false
	}
	next.session, next.pass, next.timeout = resp.SessionID, resp.Password, resp.TimeoutMs
	n.c = next
	return true
}

// call sends a request and returns the reply, or false if the connection ended.
func (n *counter) call(op jute.OpCode, body record) (reply, bool) {
	n.c.xid++
	if _, err := n.c.nc.Write(frameOf(requestFrame(n.c.xid, op, body))); err != nil {
		return reply{}, false
	}
	n.c.nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	for {
		r, err := n.c.next()
		if err != nil {
			return reply{}, false
		}
		if r.Xid != n.c.xid {
			continue
		}
		if r.Zxid < n.c.zxid {
			n.t.Errorf("%s: the reply to %v is of %v, after one of %v", n.path, op, r.Zxid, n.c.zxid)
		}
		n.c.zxid = max(n.c.zxid, r.Zxid)
		return r, true
	}
}

// check compares the actual value with the expected ones.
func (n *counter) check() bool {
	if _, ok := n.call(jute.OpSync, &jute.SyncRequest{Path: "/"}); !ok {
		return false
	}
	r, ok := n.call(jute.OpGetData, get(n.path, false))
	if !ok {
		return false
	}
	if r.Err == jute.ErrNoNode {
		if n.acked > 0 {
			n.t.Errorf("%s is gone, and %d had been acknowledged", n.path, n.acked)
		}
		_, ok = n.call(jute.OpCreate, create(n.path, "0", 0))
		return ok
	}
	v, _ := strconv.Atoi(dataOf(r))
	if v < n.acked || v > n.tried {
		n.t.Errorf("%s is %d: %d had been acknowledged, and nothing beyond %d was asked for", n.path, v, n.acked, n.tried)
	}
	n.acked = v // it is there, so it stays
	return true
}

// run counts until stop is closed.
func (n *counter) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if !n.attach() || !n.check() {
			time.Sleep(time.Duration(n.rng.IntN(100)) * time.Millisecond)
			continue
		}
		for range 1 + n.rng.IntN(200) {
			n.tried = max(n.tried, n.acked) + 1
			r, ok := n.call(jute.OpSetData, set(n.path, strconv.Itoa(n.tried)))
			if !ok || r.Err != 0 {
				break
			}
			n.acked = n.tried
			time.Sleep(time.Duration(n.rng.IntN(20)) * time.Millisecond)
		}
	}
}

// up returns a server that is up, or nil.
func (e *testEnsemble) up(rng *rand.Rand) *testServer {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*testServer
	for _, s := range e.servers {
		if s != nil {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[rng.IntN(len(list))]
}

// trouble injects a fault and repairs another.
func (e *testEnsemble) trouble(rng *rand.Rand) string {
	n := len(e.servers) - 1
	id, other := 1+rng.IntN(n), 1+rng.IntN(n)
	switch what := rng.IntN(9); {
	case e.servers[id] == nil:
		e.start(id)
		return fmt.Sprint("start ", id)
	case what == 0:
		e.kill(id)
		return fmt.Sprint("kill ", id)
	case what == 1:
		e.stop(id)
		return fmt.Sprint("stop ", id)
	case what == 2 && id != other:
		e.net.sever(id, other, true)
		return fmt.Sprint("cut ", id, other)
	case what == 3 && id != other:
		e.net.swallow(id, other, true)
		return fmt.Sprint("lose ", id, other)
	case what == 4:
		for o := 1; o <= n; o++ {
			if o != id {
				e.net.sever(id, o, true)
			}
		}
		return fmt.Sprint("isolate ", id)
	case what == 5:
		for o := 1; o <= n; o++ {
			if e.servers[o] != nil {
				e.kill(o)
			}
		}
		return "kill all"
	default:
		e.net.heal()
		return "heal"
	}
}

// heal restores all links.
func (n *peerNet) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	clear(n.lossy)
}

// Whatever faults hit servers and links, acknowledged writes stay, sessions never observe
// an older state, and in the end all servers are equal.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	count := uint64(4)
	if testing.Short() {
		count = 1
	}
	first := seeds.First(t)
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { hurt(t, seed) })
		})
	}
}

func hurt(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	size := 3 + 2*rng.IntN(2)
	e := startEnsemble(t, size)
	e.leader()
	time.Sleep(2 * time.Second)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var counters []*counter
	for i := range 4 {
		n := &counter{t: t, e: e, rng: rand.New(rand.NewPCG(seed, uint64(10+i))), path: fmt.Sprintf("/counter%d", i)}
		counters = append(counters, n)
		clients.Go(func() { n.run(stop) })
	}
	var story []string
	for range 40 {
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		story = append(story, e.trouble(rng))
	}
	e.net.heal()
	for id := 1; id <= size; id++ {
		if e.servers[id] == nil {
			e.start(id)
		}
	}
	e.leader()
	time.Sleep(5 * time.Second)
	close(stop)
	clients.Wait()
	for _, n := range counters {
		if n.c != nil {
			n.c.nc.Close()
		}
	}
	e.settled()
	c := e.servers[1].connect(t)
	total := 0
	for _, n := range counters {
		v, _ := c.get(n.path)
		if got, _ := strconv.Atoi(v); got < n.acked {
			t.Errorf("%s is %d in the end, and %d had been acknowledged", n.path, got, n.acked)
		}
		total += n.acked
	}
	if total == 0 {
		t.Error("nothing was written")
	}
	if t.Failed() {
		t.Logf("%d servers: %v", size, story)
	}
}
