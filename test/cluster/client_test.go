package cluster

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// sessionTimeout is that of the clients: longer than any fault, so that they keep
// their sessions.
const sessionTimeout = 40 * time.Second

// maxWindow is how many requests of a client may be without reply.
const maxWindow = 6

// belief is what a client thinks of a node, when its requests under way have been
// answered.
type belief struct {
	known   bool
	exists  bool
	version int32
	data    string
}

// client is a session that moves from server to server and sends what its
// workload chooses.
type client struct {
	id    int
	rng   *rand.Rand
	began time.Time // of the history
	addrs []string
	at    int // server to try next
	pace  time.Duration

	life     *life // nil: no session
	password []byte
	last     jute.Zxid // largest in any reply
	conn     *conn
	log      *connLog
	owed     []*op // under way, oldest first
	xids     []int32
	watches  map[watch]struct{} // set, and not fired yet; by the connection

	workload
	ops   []*op
	logs  []*connLog
	lives []*life
	err   error // what must not happen at all
}

func newClient(id int, seed uint64, began time.Time, addrs []string) *client {
	rng := rand.New(rand.NewPCG(seed, uint64(id)))
	return &client{id: id, rng: rng, began: began, addrs: addrs, at: rng.IntN(len(addrs)), watches: make(map[watch]struct{})}
}

func (c *client) now() int64 { return int64(time.Since(c.began)) }

// begin forgets the history of the round before.
func (c *client) begin(prefix string) {
	c.ops, c.logs, c.lives, c.err = nil, nil, nil, nil
	if c.life != nil {
		c.lives = append(c.lives, c.life)
	}
	clear(c.watches)
	c.workload = newWorkload(c, prefix)
}

// run sends requests until stop is closed, then waits for the replies that are
// still owed. The connection ends, the session does not.
func (c *client) run(stop <-chan struct{}) {
	defer func() {
		if c.conn != nil {
			c.conn.Close()
			c.conn = nil
		}
	}()
	for c.err == nil {
		if c.connect() {
			c.drive(stop)
		}
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// connect takes the next server, and reports whether there is a session there.
func (c *client) connect() bool {
	server := c.at
	c.at = (c.at + 1) % len(c.addrs)
	r := jute.ConnectRequest{TimeoutMs: int32(sessionTimeout.Milliseconds()), LastZxidSeen: c.last}
	if c.life != nil {
		r.SessionID, r.Password = c.life.id, c.password
	}
	log := &connLog{client: c.id, server: server + 1, seen: c.last, call: c.now()}
	conn, err := dial(c.addrs[server], r, silence)
	if errors.Is(err, process.ErrExpired) {
		c.expire()
		return false
	}
	if err != nil {
		return false
	}
	log.session = conn.Session
	if c.life == nil {
		c.life = &life{id: conn.Session, timeout: int64(conn.Timeout), begun: log.call}
		c.lives = append(c.lives, c.life)
	} else if conn.Session != c.life.id {
		c.err = fmt.Errorf("client %d: session %v was asked for, and %v came", c.id, c.life.id, conn.Session)
	}
	c.life.touch(log.call, true)
	c.password, c.conn, c.log = conn.Password, conn, log
	c.logs = append(c.logs, log)
	return c.rewatch()
}

// touch notes that a request sent at that time has been answered.
func (l *life) touch(sent int64, toLeader bool) {
	l.touched = max(l.touched, sent)
	if toLeader {
		l.written = max(l.written, sent)
	}
}

// expire notes that the session is gone.
func (c *client) expire() {
	c.life.expired = c.now()
	c.life, c.password = nil, nil
	clear(c.watches)
	c.forgetSession()
}

// rewatch takes the watches over to a new connection.
func (c *client) rewatch() bool {
	if len(c.watches) == 0 {
		return true
	}
	r := &jute.SetWatchesRequest{RelativeZxid: c.last}
	taken := make([]watch, 0, len(c.watches))
	for w := range c.watches {
		taken = append(taken, w)
		list := map[watchKind]*[]string{onData: &r.Data, onExist: &r.Exist, onChild: &r.Child}[w.kind]
		*list = append(*list, w.path)
	}
	c.conn.PutXid(jute.XidSetWatches, jute.OpSetWatches, r)
	if c.conn.Flush() != nil {
		return false
	}
	for {
		h, body, err := c.conn.Next()
		if err != nil {
			return false
		}
		if h.Xid == jute.XidSetWatches {
			c.see(frame{kind: aRegistration, zxid: h.Zxid, taken: taken})
			return h.Err == 0
		}
		if err := c.event(h, body); err != nil {
			c.err = err
			return false
		}
	}
}

// see appends to the connection's log.
func (c *client) see(f frame) {
	if f.zxid > 0 && f.kind != anEvent {
		c.last = max(c.last, f.zxid)
	}
	c.log.frames = append(c.log.frames, f)
}

func (c *client) event(h jute.ReplyHeader, body []byte) error {
	if h.Xid != jute.XidNotification {
		return fmt.Errorf("client %d: reply with xid %d, which nothing asked for", c.id, h.Xid)
	}
	var e jute.WatcherEvent
	d := jute.NewDecoder(body)
	e.Decode(&d)
	c.see(frame{kind: anEvent, zxid: h.Zxid, event: e.Type, path: e.Path})
	for w := range maps.Clone(c.watches) {
		if w.path == e.Path && w.kind.hears(e.Type) {
			delete(c.watches, w)
		}
	}
	return d.Err()
}

// hears reports whether a watch fires at such an event.
func (k watchKind) hears(e jute.EventType) bool {
	if k == onChild {
		return e == jute.EventChildrenChanged || e == jute.EventDeleted
	}
	return e != jute.EventChildrenChanged
}

// drive keeps requests under way until the connection breaks, the session is
// closed, or stop is closed and all replies have come.
func (c *client) drive(stop <-chan struct{}) {
	defer func() {
		c.conn.Close()
		c.conn, c.owed, c.xids = nil, nil, nil
	}()
	leave := false
	for {
		select {
		case <-stop:
			leave = true
		default:
		}
		if leave && len(c.owed) == 0 {
			return
		}
		if !leave {
			leave = c.send()
		}
		if c.conn.Flush() != nil || !c.receive() {
			return
		}
		if c.pace > 0 && !leave {
			select {
			case <-time.After(time.Duration(c.rng.Int64N(int64(c.pace)))):
			case <-stop:
			}
		}
	}
}

// send puts requests into the window, and returns true if nothing may follow on
// this connection.
func (c *client) send() bool {
	for window := 1 + c.rng.IntN(maxWindow); len(c.owed) < window; {
		switch n := c.rng.IntN(1000); {
		case n < 2: // move to another server
			return true
		case n < 4:
			c.put(&op{code: jute.OpCloseSession})
			c.life.closing = true
			return true
		}
		for _, o := range c.choose() {
			c.put(o)
		}
	}
	return false
}

func (c *client) put(o *op) {
	o.client, o.conn, o.session = c.id, c.log, c.life.id
	o.call, o.ret = c.now(), forever
	xid := c.conn.Put(o.code, o.request())
	c.ops = append(c.ops, o)
	c.owed = append(c.owed, o)
	c.xids = append(c.xids, xid)
}

// receive takes one reply and all that are there already, and reports whether the
// connection lasts.
func (c *client) receive() bool {
	for first := true; len(c.owed) > 0 && (first || c.conn.Answered()); {
		h, body, err := c.conn.Next()
		if err != nil {
			return false
		}
		if h.Xid == jute.XidNotification {
			err = c.event(h, body)
		} else {
			first = false
			err = c.reply(h, body)
		}
		if err != nil {
			c.err = err
			return false
		}
		if c.life == nil {
			return false
		}
	}
	return true
}

// reply takes the answer to the oldest request.
func (c *client) reply(h jute.ReplyHeader, body []byte) error {
	o := c.owed[0]
	if h.Xid != c.xids[0] {
		return fmt.Errorf("client %d: reply has xid %d, want %d", c.id, h.Xid, c.xids[0])
	}
	c.owed, c.xids = c.owed[1:], c.xids[1:]
	if h.Err == jute.ErrConnectionLoss || h.Err == jute.ErrOperationTimeout {
		return nil // as good as unanswered
	}
	o.ret = c.now()
	if err := o.answer(h, body); err != nil {
		return fmt.Errorf("%v: %w", o, err)
	}
	if o.turnedAway() {
		c.learn(o)
		return nil
	}
	c.see(frame{kind: aReply, zxid: h.Zxid, op: o})
	c.life.touch(o.call, o.write() || o.code == jute.OpSync)
	if o.code == jute.OpCloseSession {
		c.life.closed = o.zxid
		c.life, c.password = nil, nil
		clear(c.watches)
		c.forgetSession()
		return nil
	}
	c.arm(o)
	c.learn(o)
	return nil
}

// arm notes the watch that a read has set.
func (c *client) arm(o *op) {
	w := watch{path: o.path, since: o.zxid}
	switch {
	case !o.watch:
		return
	case o.code == jute.OpGetChildren2 && o.err == 0:
		w.kind = onChild
	case o.code == jute.OpExists && o.err == jute.ErrNoNode:
		w.kind = onExist
	case o.err == 0:
		w.kind = onData
	default:
		return
	}
	for have := range c.watches {
		if have.path == w.path && (have.kind == onChild) == (w.kind == onChild) {
			return // the same watch, and the older one says more
		}
	}
	c.watches[w] = struct{}{}
}
