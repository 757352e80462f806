package crash

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

const (
	seqParent   = "/seq" // of all workers' sequential nodes
	mayParent   = "/may" // of ephemerals whose clients do not come back
	maxNodes    = 40     // of a worker
	maxWindow   = 32     // requests of a worker without reply
	closeChance = 400    // one request in so many ends the session
)

// worker is a client that writes at random below a separate node and knows at
// each moment what the server owes it.
type worker struct {
	id      int
	rng     *rand.Rand
	addr    string
	root    string
	session jute.SessionID // 0: none
	passwd  []byte

	acked tree // by the replies
	ahead tree // when the requests under way have been answered
	owed  []op // requests under way, oldest first
	next  int  // numbers data and names, so that none comes twice

	lastZxid jute.Zxid // largest in any reply
	zxids    *zxidSet

	writes, failed, resumed, closed int // counts
}

// zxidSet has the zxids that were given to writes.
type zxidSet struct{ bits []atomic.Uint64 }

func newZxidSet() *zxidSet { return &zxidSet{bits: make([]atomic.Uint64, 1<<20)} }

// add reports whether the zxid is new.
func (z *zxidSet) add(zxid jute.Zxid) bool {
	n := uint64(zxid.Counter())
	bit := uint64(1) << (n % 64)
	return z.bits[n/64%uint64(len(z.bits))].Or(bit)&bit == 0
}

func newWorker(id int, addr string, seed uint64, zxids *zxidSet) *worker {
	w := &worker{id: id, rng: rand.New(rand.NewPCG(seed, uint64(id))), addr: addr, root: fmt.Sprintf("/w%d", id), zxids: zxids}
	w.acked.nodes = make(map[string]node)
	return w
}

// run connects and writes until the connection breaks, as it must when the
// server is killed. It returns an error for what must not happen.
func (w *worker) run() error {
	for {
		c, err := w.connect()
		if err != nil || c == nil {
			return err
		}
		goOn, err := w.drive(c)
		c.Close()
		w.lastZxid = max(w.lastZxid, c.lastZxid)
		if err != nil || !goOn {
			return err
		}
	}
}

// connect resumes the session, or begins one. It returns nil if the server is
// gone.
func (w *worker) connect() (*client, error) {
	r := jute.ConnectRequest{TimeoutMs: 60_000, SessionID: w.session, Password: w.passwd, LastZxidSeen: w.lastZxid}
	c, err := dial(w.addr, r)
	if err == process.ErrExpired {
		if !w.mayBeClosed() {
			return nil, fmt.Errorf("worker %d: session %v is not resumed", w.id, w.session)
		}
		w.session, w.passwd = 0, nil
		w.closed++
		return w.connect()
	}
	if err != nil {
		return nil, nil
	}
	if w.session != 0 {
		w.resumed++
	} else if err := c.ping(); err != nil {
		// The ping's reply proves that what came before is durable, the session
		// with it. Without, the session does not count.
		c.Close()
		return nil, nil
	}
	w.session, w.passwd = c.Session, c.Password
	w.lastZxid = max(w.lastZxid, c.lastZxid)
	return c, nil
}

// mayBeClosed reports whether a close of the session was under way and nothing
// in the tree says that it did not happen.
func (w *worker) mayBeClosed() bool {
	if n := len(w.owed); n == 0 || w.owed[n-1].code != jute.OpCloseSession {
		return false
	}
	for _, n := range w.acked.nodes {
		if n.owner == w.session {
			return false
		}
	}
	return true
}

// drive keeps requests under way until the connection breaks (false) or the
// worker has closed its session (true).
func (w *worker) drive(c *client) (goOn bool, err error) {
	w.ahead = w.acked.clone()
	w.owed = w.owed[:0]
	closing := false
	for {
		window := 1 + w.rng.IntN(maxWindow)
		for len(w.owed) < window && !closing {
			o := w.choose()
			o.by(w.session)
			o.xid = c.Put(o.code, o.request())
			w.ahead.apply(&o, 0)
			w.owed = append(w.owed, o)
			closing = o.code == jute.OpCloseSession
		}
		broken := c.Unsent() && c.Flush() != nil
		for first := true; len(w.owed) > 0 && (first || broken || c.Answered()); first = false {
			r, err := c.next()
			if err != nil {
				return false, nil
			}
			if err := w.take(&r); err != nil {
				return false, fmt.Errorf("worker %d: %w", w.id, err)
			}
		}
		if closing && len(w.owed) == 0 {
			w.session, w.passwd = 0, nil
			w.closed++
			return true, nil
		}
	}
}

// take checks a reply against what the oldest request had to bring.
func (w *worker) take(r *reply) error {
	o := &w.owed[0]
	if r.Xid != o.xid {
		return fmt.Errorf("reply has xid %d, want %d", r.Xid, o.xid)
	}
	if r.Zxid <= w.lastZxid {
		return fmt.Errorf("zxid of a write is %v, after a reply with %v", r.Zxid, w.lastZxid)
	}
	if !w.zxids.add(r.Zxid) {
		return fmt.Errorf("zxid %v was used before", r.Zxid)
	}
	w.lastZxid = r.Zxid
	want := w.acked.apply(o, r.Zxid)
	got, err := o.outcome(r)
	if err != nil {
		return fmt.Errorf("%v %s: %w", o.code, short(o.path), err)
	}
	if got != want {
		return fmt.Errorf("%v %s: reply %v, want %v", o.code, short(o.path), got, want)
	}
	if want == 0 {
		if err := w.checkReply(o, r); err != nil {
			return fmt.Errorf("%v %s: %w", o.code, short(o.path), err)
		}
		w.writes++
	} else {
		w.failed++
	}
	w.owed = w.owed[1:]
	return nil
}

// outcome returns the reply's code; that of a failed multi stands in its
// results.
func (o *op) outcome(r *reply) (jute.Code, error) {
	if o.code != jute.OpMulti || r.Err != 0 {
		return r.Err, nil
	}
	var m jute.MultiResponse
	d := jute.NewDecoder(r.body)
	m.Decode(&d)
	if d.Err() != nil {
		return 0, d.Err()
	}
	if len(m.Results) != len(o.subs) {
		return 0, fmt.Errorf("%d results for %d operations", len(m.Results), len(o.subs))
	}
	for _, res := range m.Results {
		if res.Type == jute.OpError && res.Err != 0 && res.Err != jute.ErrRuntimeInconsistency {
			return res.Err, nil
		}
	}
	return 0, nil
}

// checkReply compares a reply's path and stat with the model, into which the
// write has been taken, and takes over the name of a sequential node.
func (w *worker) checkReply(o *op, r *reply) error {
	d := jute.NewDecoder(r.body)
	f := found{path: o.path, data: o.data}
	switch o.code {
	case jute.OpCreate:
		f.path = d.String()
	case jute.OpCreate2:
		f.path = d.String()
		f.stat.Decode(&d)
	case jute.OpSetData, jute.OpSetACL:
		f.stat.Decode(&d)
	default:
		return nil
	}
	n := w.acked.nodes[o.key]
	if d.Err() != nil {
		return d.Err()
	}
	if o.mode.Sequential() {
		if !strings.HasPrefix(f.path, o.path) || f.path == o.path {
			return fmt.Errorf("made %s", f.path)
		}
		n.name = f.path
		w.acked.nodes[o.key] = n
	} else if f.path != o.path {
		return fmt.Errorf("made %s", f.path)
	}
	if o.code != jute.OpCreate && o.code != jute.OpSetACL {
		if diff := n.differs(&f); diff != "" {
			return fmt.Errorf("reply's %s", diff)
		}
	}
	return nil
}

// settle finds out how many of the requests without reply have happened, given
// what is there now. It returns that number, or what is wrong.
func (w *worker) settle(there map[string]found) (happened int, err error) {
	for k := 0; ; k++ {
		diffs := w.acked.compare(there)
		if len(diffs) == 0 {
			w.acked.adopt(there)
			w.owed = w.owed[k:]
			return k, nil
		}
		if k == 0 {
			err = fmt.Errorf("worker %d, last zxid %v: no number of the %d requests under way explains what is there; with none:\n\t%s",
				w.id, w.lastZxid, len(w.owed), strings.Join(diffs, "\n\t"))
		}
		if k == len(w.owed) {
			return 0, err
		}
		o := &w.owed[k]
		w.acked.apply(o, 0)
		if o.code == jute.OpCloseSession {
			w.session, w.passwd = 0, nil
		}
	}
}

// by says which session sends the request.
func (o *op) by(session jute.SessionID) {
	o.session = session
	for i := range o.subs {
		o.subs[i].session = session
	}
}

// choose makes up the next request.
func (w *worker) choose() op {
	if _, ok := w.ahead.nodes[w.root]; !ok {
		return op{code: jute.OpCreate, key: w.root, path: w.root, data: w.fresh(), version: -1}
	}
	if w.rng.IntN(closeChance) == 0 {
		return op{code: jute.OpCloseSession}
	}
	switch n := w.rng.IntN(100); {
	case n < 12:
		return w.multi(false)
	case n < 16:
		return w.multi(true)
	default:
		return w.single()
	}
}

func (w *worker) fresh() string {
	w.next++
	tag := fmt.Sprintf("%d.%d", w.id, w.next)
	if w.rng.IntN(40) == 0 {
		return tag + strings.Repeat("x", 20_000+w.rng.IntN(20_000))
	}
	return tag
}

// mine returns a node of the worker's own that is there when the requests under
// way are done, if there is one.
func (w *worker) mine() (string, node, bool) {
	keys := slices.Sorted(maps.Keys(w.ahead.nodes))
	keys = slices.DeleteFunc(keys, func(k string) bool { return k == w.root || !strings.HasPrefix(k, w.root+"/") })
	if len(keys) == 0 {
		return "", node{}, false
	}
	key := keys[w.rng.IntN(len(keys))]
	return key, w.ahead.nodes[key], true
}

// single makes up a request that is not a multi.
func (w *worker) single() op {
	key, n, ok := w.mine()
	switch k := w.rng.IntN(100); {
	case !ok || k < 15:
		return w.create(jute.ModePersistent)
	case k < 25:
		return w.create(jute.ModeEphemeral)
	case k < 35:
		return w.sequential()
	case k < 47:
		if o, ok := w.deleteSequential(); ok {
			return o
		}
		return w.set(key, -1)
	case k < 62 || len(w.ahead.nodes) > maxNodes:
		return op{code: jute.OpDelete, key: key, path: key, version: n.version}
	case k < 66:
		return op{code: jute.OpSetACL, key: key, path: key, version: n.aversion}
	case k < 70:
		return w.set(key, n.version+1) // fails
	case k < 73:
		return op{code: jute.OpCreate, key: key, path: key, data: w.fresh()} // fails
	case k < 85:
		return w.set(key, n.version)
	}
	return w.set(key, -1)
}

func (w *worker) set(key string, version int32) op {
	return op{code: jute.OpSetData, key: key, path: key, data: w.fresh(), version: version}
}

func (w *worker) create(mode jute.CreateMode) op {
	data := w.fresh()
	path := fmt.Sprintf("%s/n%d", w.root, w.next)
	return op{code: w.createOp(), key: path, path: path, data: data, mode: mode}
}

func (w *worker) createOp() jute.OpCode {
	if w.rng.IntN(2) == 0 {
		return jute.OpCreate
	}
	return jute.OpCreate2
}

func (w *worker) sequential() op {
	mode := jute.ModePersistentSequential
	if w.rng.IntN(3) == 0 {
		mode = jute.ModeEphemeralSequential
	}
	data := w.fresh()
	return op{code: w.createOp(), key: data, path: seqParent + "/n-", data: data, mode: mode}
}

// deleteSequential deletes a sequential node whose name the worker knows.
func (w *worker) deleteSequential() (op, bool) {
	for _, key := range slices.Sorted(maps.Keys(w.ahead.nodes)) {
		n, known := w.acked.nodes[key]
		if known && n.name != "" {
			return op{code: jute.OpDelete, key: key, path: n.name, version: -1}, true
		}
	}
	return op{}, false
}

// multi makes up a multi of a few operations that go well together. The last
// one of one that fails is a check of a wrong version.
func (w *worker) multi(fails bool) op {
	m := op{code: jute.OpMulti}
	creates := 1
	if len(w.ahead.nodes) < maxNodes {
		creates += w.rng.IntN(4)
	}
	for range creates {
		m.subs = append(m.subs, w.create(jute.CreateMode(w.rng.IntN(2))))
	}
	if key, n, ok := w.mine(); ok {
		m.subs = append(m.subs, op{code: jute.OpCheck, key: key, path: key, version: n.version}, w.set(key, n.version))
		if w.rng.IntN(2) == 0 {
			m.subs = append(m.subs, op{code: jute.OpDelete, key: key, path: key, version: n.version + 1})
		}
	}
	if fails {
		m.subs = append(m.subs, op{code: jute.OpCheck, key: w.root, path: w.root, version: 99})
	}
	return m
}
