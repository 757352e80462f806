package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// modelServer is a server with a small tree that cuts connections at the worst
// times, and remembers what it has done. Data says whose a change is and which:
// "worker number".
type modelServer struct {
	net *fakeNet

	mu    sync.Mutex
	r     *rand.Rand
	calm  bool // no more cuts
	zxid  Zxid
	nodes map[string]*modelNode
	log   []modelChange
	done  map[string]int   // how often a change was done, by its data
	order map[string][]int // the numbers of each worker's changes, as they were done
	conn  *modelConn       // the session's
}

type modelNode struct {
	version int32
	mzxid   Zxid
}

type modelChange struct {
	path string
	zxid Zxid
	typ  EventType
}

type modelConn struct {
	*fakeConn
	data      map[string]bool // standard watches
	recursive map[string]bool
}

func newModelServer(n *fakeNet, seed uint64) *modelServer {
	return &modelServer{net: n, r: seeded(seed), nodes: map[string]*modelNode{}, done: map[string]int{}, order: map[string][]int{}}
}

// run serves connections until ctx ends.
func (s *modelServer) run(ctx context.Context) {
	for {
		select {
		case c := <-s.net.accepted:
			go s.serve(&modelConn{c, map[string]bool{}, map[string]bool{}})
		case <-ctx.Done():
			return
		}
	}
}

func (s *modelServer) chance(percent int) bool { return !s.calm && s.r.IntN(100) < percent }

func (s *modelServer) serve(c *modelConn) {
	defer c.Close()
	if _, err := c.frame(); err != nil {
		return
	}
	s.mu.Lock()
	if s.chance(20) {
		s.mu.Unlock()
		return
	}
	if s.conn != nil {
		s.conn.Close()
	}
	s.conn = c
	welcome := jute.ConnectResponse{TimeoutMs: 10000, SessionID: fakeSession, Password: fakePassword, HasReadOnly: true}
	c.put(welcome.Append(nil))
	s.mu.Unlock()
	for {
		b, err := c.frame()
		if err != nil {
			return
		}
		d := jute.NewDecoder(b)
		var h jute.RequestHeader
		h.Decode(&d)
		s.mu.Lock()
		if s.chance(10) {
			pause := time.Duration(s.r.IntN(30)) * time.Millisecond
			s.mu.Unlock()
			time.Sleep(pause)
			s.mu.Lock()
		}
		ok := s.answer(c, request{h.Xid, h.Type, d.Rest()})
		s.mu.Unlock()
		if !ok {
			return
		}
	}
}

// put writes a frame, if the client still listens.
func (c *modelConn) put(payload []byte) {
	b, mark := jute.BeginFrame(nil)
	c.Write(jute.EndFrame(append(b, payload...), mark))
}

// answer does a request and answers it, unless it cuts the connection before or
// after; then it reports false.
func (s *modelServer) answer(c *modelConn, r request) bool {
	if s.conn != c || s.chance(2) {
		return false
	}
	h := jute.ReplyHeader{Xid: r.xid}
	var body record
	d := jute.NewDecoder(r.body)
	switch r.op {
	case jute.OpSetData, jute.OpCreate:
		h.Err, body = s.change(r, &d)
	case jute.OpGetData:
		var q jute.PathWatchRequest
		q.Decode(&d)
		if n := s.nodes[q.Path]; n == nil {
			h.Err = ErrNoNode
		} else {
			body = &jute.GetDataResponse{Stat: Stat{Version: n.version, Mzxid: n.mzxid}}
			if q.Watch {
				c.data[q.Path] = true
			}
		}
	case jute.OpAddWatch:
		c.recursive[r.path()] = true
		body = &jute.ErrorResponse{}
	case jute.OpRemoveWatches:
		if path := r.path(); c.data[path] {
			delete(c.data, path)
		} else {
			h.Err = ErrNoWatcher
		}
	case jute.OpSetWatches, jute.OpSetWatches2:
		s.setWatches(c, r.setWatches())
	}
	h.Zxid = s.zxid
	b := h.Append(nil)
	if body != nil {
		b = body.Append(b)
	}
	switch {
	case s.chance(2):
		return false
	case s.chance(1):
		c.Write(append([]byte{0, 0, 0, byte(len(b))}, b[:len(b)/2]...))
		return false
	}
	c.put(b)
	return true
}

// change does a set or a create.
func (s *modelServer) change(r request, d *jute.Decoder) (jute.Code, record) {
	var path, token string
	typ := EventDataChanged
	if r.op == jute.OpCreate {
		var q jute.CreateRequest
		q.Decode(d)
		path, token, typ = q.Path, string(q.Data), EventCreated
		if s.nodes[path] != nil {
			return ErrNodeExists, nil
		}
		s.nodes[path] = &modelNode{version: -1}
	} else {
		var q jute.SetDataRequest
		q.Decode(d)
		path, token = q.Path, string(q.Data)
		if s.nodes[path] == nil {
			return ErrNoNode, nil
		}
	}
	s.done[token]++
	var worker string
	var number int
	fmt.Sscan(token, &worker, &number)
	s.order[worker] = append(s.order[worker], number)
	s.touch(path, typ)
	if r.op == jute.OpCreate {
		return 0, &jute.PathResponse{Path: path}
	}
	return 0, &Stat{Version: s.nodes[path].version, Mzxid: s.zxid}
}

// touch makes a change to a node and tells who watches it.
func (s *modelServer) touch(path string, typ EventType) {
	s.zxid++
	n := s.nodes[path]
	n.version++
	n.mzxid = s.zxid
	s.log = append(s.log, modelChange{path, s.zxid, typ})
	c := s.conn
	if c == nil {
		return
	}
	heard := c.data[path]
	delete(c.data, path)
	for p := path; p != ""; p = jute.Parent(p) {
		heard = heard || c.recursive[p]
	}
	if heard {
		c.event(typ, path, s.zxid)
	}
}

func (c *modelConn) event(typ EventType, path string, zxid Zxid) {
	h := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}
	e := jute.WatcherEvent{Type: jute.EventType(typ), State: jute.StateSyncConnected, Path: path}
	c.put(e.Append(h.Append(nil)))
}

func (s *modelServer) setWatches(c *modelConn, q jute.SetWatchesRequest) {
	for _, path := range q.Data {
		if n := s.nodes[path]; n.mzxid > q.RelativeZxid {
			c.event(EventDataChanged, path, -1)
		} else {
			c.data[path] = true
		}
	}
	for _, path := range q.PersistentRecursive {
		c.recursive[path] = true
	}
}

// --- The clients of the model

// modelRun is one run: workers that change nodes of their own and watch shared
// ones, while connections break.
type modelRun struct {
	t    *testing.T
	seed uint64
	c    *Client
	s    *modelServer

	mu      sync.Mutex
	results map[string]error // of changes, by their data
	watches []modelWatch
}

type modelWatch struct {
	w       *Watch
	path    string
	version int32 // that the read saw
}

const (
	modelWorkers = 6
	modelShared  = 4
	modelSteps   = 60
)

// note keeps the result of a change; each has one.
func (m *modelRun) note(token string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, twice := m.results[token]; twice {
		m.t.Errorf("seed %d: %s has two results", m.seed, token)
	}
	m.results[token] = err
}

func (m *modelRun) work(worker int) {
	r := rand.New(rand.NewPCG(m.seed, uint64(worker)))
	number := 0
	token := func() string { number++; return fmt.Sprintf("w%d %d", worker, number) }
	own := fmt.Sprintf("/w%d", worker)
	for range modelSteps {
		ctx, cancel := context.WithTimeout(bg, time.Duration(1+r.IntN(2000))*time.Millisecond)
		switch r.IntN(6) {
		case 0:
			tok := token()
			_, err := m.c.Set(ctx, own, []byte(tok), AnyVersion)
			m.note(tok, err)
		case 1:
			tok := token()
			_, err := m.c.Create(ctx, "/c/"+strings.ReplaceAll(tok, " ", "-"), []byte(tok), CreateOptions{})
			m.note(tok, err)
		case 2: // many at once, by futures or callbacks
			var wg sync.WaitGroup
			for range r.IntN(30) {
				tok := token()
				wg.Add(1)
				m.c.Async().Set(own, []byte(tok), AnyVersion, func(_ Stat, err error) { m.note(tok, err); wg.Done() })
			}
			wg.Wait()
		case 3, 4:
			m.watch(ctx, fmt.Sprintf("/s%d", r.IntN(modelShared)))
		case 5:
			m.closeWatch(ctx, r)
		}
		cancel()
		if r.IntN(10) == 0 {
			time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
		}
	}
}

func (m *modelRun) watch(ctx context.Context, path string) {
	node, err := m.c.GetW(ctx, path)
	if (err == nil) != (node.Watch != nil) {
		m.t.Errorf("seed %d: watch %v with %v", m.seed, node.Watch, err)
	}
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watches = append(m.watches, modelWatch{node.Watch, path, node.Stat.Version})
}

// closeWatch closes one of the watches, with events or without.
func (m *modelRun) closeWatch(ctx context.Context, r *rand.Rand) {
	m.mu.Lock()
	if len(m.watches) == 0 {
		m.mu.Unlock()
		return
	}
	i := r.IntN(len(m.watches))
	w := m.watches[i].w
	m.watches = slices.Delete(m.watches, i, i+1)
	m.mu.Unlock()
	if err := w.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		m.t.Errorf("seed %d: close of a watch: %v", m.seed, err)
	}
}

// others changes shared nodes, as other sessions do.
func (m *modelRun) others(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
			m.s.mu.Lock()
			m.s.touch(fmt.Sprintf("/s%d", m.s.r.IntN(modelShared)), EventDataChanged)
			m.s.mu.Unlock()
		}
	}
}

func (m *modelRun) fatal(err error) {
	if err != nil {
		m.t.Fatalf("seed %d: %v", m.seed, err)
	}
}

// Under a network that breaks at random each operation has one result; what is
// acknowledged was done once, what failed for sure was not done, what is ambiguous
// at most once; each worker's changes are done in order; no watch is lost.
func TestModel(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runModel(t, seed) })
		})
	}
}

func runModel(t *testing.T, seed uint64) {
	n := newFakeNet(t)
	s := newModelServer(n, seed)
	for i := range modelShared {
		s.nodes[fmt.Sprintf("/s%d", i)] = &modelNode{}
	}
	for i := range modelWorkers {
		s.nodes[fmt.Sprintf("/w%d", i)] = &modelNode{}
	}
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	go s.run(ctx)
	m := &modelRun{t: t, seed: seed, s: s, results: map[string]error{}}
	m.c = n.newClient("a,b", Options{KeepSession: true, Rand: seeded(seed)})
	all, err := m.c.WithRetry(&RetryPolicy{}).AddWatch(bg, "/", WatchRecursive)
	m.fatal(err)
	var workers sync.WaitGroup
	for i := range modelWorkers {
		workers.Go(func() { m.work(i) })
	}
	stop := make(chan struct{})
	go m.others(stop)
	workers.Wait()
	close(stop)
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	m.settle()
	m.checkWatches()
	m.checkAll(all)
	m.c.s.abort()
	m.checkChanges()
}

// settle waits until the client has seen all that there is.
func (m *modelRun) settle() {
	for {
		if _, err := m.c.Get(bg, "/s0"); err == nil {
			break
		}
	}
	synctest.Wait()
}

func (m *modelRun) checkChanges() {
	for token, err := range m.results {
		done := m.s.done[token]
		switch {
		case err == nil && done != 1, err != nil && !IsAmbiguous(err) && done != 0, done > 1:
			m.t.Errorf("seed %d: %s was done %d times, and its result is %v", m.seed, token, done, err)
		}
	}
	for worker, numbers := range m.s.order {
		if !slices.IsSorted(numbers) {
			m.t.Errorf("seed %d: the changes of %s were done in the order %v", m.seed, worker, numbers)
		}
	}
}

// checkWatches goes by the versions: a watcher that has had no event has not missed
// a change, and gets the event of the next one.
func (m *modelRun) checkWatches() {
	m.s.mu.Lock()
	for _, w := range m.watches {
		got := events(w.w)
		fired := len(got) > 0
		if changed := m.s.nodes[w.path].version != w.version; changed != fired {
			m.t.Errorf("seed %d: watch on %s, version %d of %d, got %q", m.seed, w.path, w.version, m.s.nodes[w.path].version, got)
		}
	}
	m.s.mu.Unlock()
	for i := range modelShared {
		m.s.mu.Lock()
		m.s.touch(fmt.Sprintf("/s%d", i), EventDataChanged)
		m.s.mu.Unlock()
	}
	m.settle()
	for _, w := range m.watches {
		if !w.w.Fired() {
			m.t.Errorf("seed %d: watch on %s is lost", m.seed, w.path)
		}
	}
	if left := tableSize(m.c); left != 1 {
		m.t.Errorf("seed %d: %d watches in the table, want the recursive one", m.seed, left)
	}
}

// checkAll holds what the recursive watch was told against what happened: between
// two reconnects it hears of all changes, in order.
func (m *modelRun) checkAll(all *Watch) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	at, events := -1, 0 // the place in the log of the last event; -1 right after a reconnect
	for all.Pending() {
		ev := <-all.Events()
		if ev.Type == EventRearmed {
			at = -1
			continue
		}
		if ev.Zxid < 0 { // what one-shot watches had missed: before the watch is set again
			at = -1
			continue
		}
		events++
		i := slices.Index(m.s.log, modelChange{ev.Path, ev.Zxid, ev.Type})
		if i < 0 || at >= 0 && i != at+1 {
			m.t.Errorf("seed %d: event %v is change %d, after change %d", m.seed, ev, i, at)
		}
		at = i
		synctest.Wait()
	}
	if at != len(m.s.log)-1 || events == 0 {
		m.t.Errorf("seed %d: the last event is of change %d of %d", m.seed, at, len(m.s.log))
	}
}
