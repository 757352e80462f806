package client

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/internal/fifo"
	"github.com/zkd-project/zkd/jute"
)

// A Relay is a session that a program holds with the servers for a client of its own, whose requests it passes
// on as they are, in any of the protocol's forms. When a connection to a server is lost, the client of an
// exactly-once session does not learn of it: its requests are answered on the next connection.
//
// A reply shows what it would have shown on one connection. So a write is not sent while a read before it,
// whose answer it would change, is under way: such a read can then be asked again.
//
// Relay is for programs such as zkd edge. Others use Client.
type Relay struct {
	c *Client
	o RelayOptions

	passes  chan struct{} // capacity 1, full while something of a server is passed on, and while the relay is held
	passed  chan struct{} // capacity 1: Hold may look again
	telling atomic.Int32  // replies that are passed on now
	left    atomic.Bool   // another relay continues this one

	// Guarded by session.mu.
	bound   bool                  // to its connection: see resumesLocked
	replay  *replay               // while the client's requests wait for what its persistent watches have missed; written by the link's reader
	again   map[toldEvent]int     // events that the replay has told and the server may send yet, before any reply; of the link's reader
	missed  []toldEvent           // that wait for the reply to a setWatches, with those after them; of the link's reader
	last    Zxid                  // of the newest event that the client has
	ofLast  []toldEvent           // its events of that transaction, if it has no newer reply
	asked   fifo.List[*forwarded] // without an answer, or with one that earlier requests hold up
	reads   reads                 // under way
	heard   time.Time             // when the client sent something
	expired bool                  // the servers have said that the session has ended
	holder  jute.Holder           // which the servers know the relay by

	memory fromMemory
}

// RelayOptions are what a Relay needs to know of its client. Options.Session is the session that the client
// resumes, if it does.
type RelayOptions struct {
	Options
	// Seen is the highest zxid that the client has seen.
	Seen Zxid
	// Record, if it is not nil, is that of a Relay which this one continues. Session, Seen and the options that are about the client are its.
	Record *RelayRecord
	// Memory, if it is not nil, answers reads where it can. What it has is what the servers let User read.
	Memory Memory
	// Carry, if it is not nil, makes each connection for the session to a server of the connect string, at one of its addresses. open
	// opens one of the session's own, with TLS if the options want it.
	Carry func(ctx context.Context, server, address string, open func(context.Context) (net.Conn, error)) (net.Conn, error)
	// Reply gets the answer to each request of Forward, in their order. Event gets the events of watches, before
	// the replies that show what has changed. Both are called by one goroutine at a time, and delay everything
	// else of the session.
	Reply func(Forwarded)
	Event func(zxid Zxid, ev jute.WatcherEvent)
}

// Forwarded is the answer to a request that was forwarded.
type Forwarded struct {
	Xid  int32 // of the request, as its client chose it
	Op   OpCode
	Zxid Zxid
	Err  jute.Code
	Body []byte // of a reply without an error; valid until Reply returns
	// Remembered means that the answer is RelayOptions.Memory's.
	Remembered bool
	// Lost is why there is no reply. The client should lose its connection, too. Expired means that a server has
	// said that the session has ended.
	Lost    error
	Expired bool
}

// NewRelay begins to connect a session. The connect string must have no path.
func NewRelay(servers string, o RelayOptions) (*Relay, error) {
	list, root, err := ParseServers(servers)
	if err == nil && root != "" {
		err = errors.New("a relay passes paths on as they are, and takes no path at the end of the servers: " + root)
	}
	if err == nil {
		err = o.validate()
	}
	if err != nil {
		return nil, err
	}
	if o.Record != nil {
		o = o.Record.options(o)
	}
	s := newSession(list, o.withDefaults())
	s.lastZxid = o.Seen
	s.relay = &Relay{
		c: &Client{s: s}, o: o, heard: time.Now(), holder: jute.Holder(s.opts.Rand.Int32()|2) | jute.HolderTakes,
		passes: make(chan struct{}, 1), passed: make(chan struct{}, 1),
	}
	if o.Record != nil {
		s.relay.take(o.Record)
	}
	s.start()
	return s.relay, nil
}

// Client returns the session as a client, for its state. Its operations count as the relay's.
func (r *Relay) Client() *Client { return r.c }

// Done returns a channel that is closed when the session is not, or no longer, connected for its client. All
// requests have their answers then. After a closeSession that a server has answered, it is closed by Abort.
func (r *Relay) Done() <-chan struct{} { return r.c.s.finished }

// Expired reports whether a server has said that the session has ended.
func (r *Relay) Expired() bool {
	r.c.s.mu.Lock()
	defer r.c.s.mu.Unlock()
	return r.expired
}

// Abort ends the relay. The session remains at the servers for its timeout, and its client may resume it.
func (r *Relay) Abort() { r.c.s.abort() }

// Forward sends a request: what its client has sent after the header. It must not be called before there is a
// session. It blocks while too much waits to be sent.
func (r *Relay) Forward(xid int32, op OpCode, body []byte) {
	if r.remembers(xid, op, body) {
		return
	}
	r.goUpstream()
	s := r.c.s
	f := &forwarded{r: r, xid: xid}
	f.op, f.result = op, f
	if op == jute.OpAuth {
		d := jute.NewDecoder(body)
		var a jute.AuthRequest
		if a.Decode(&d); d.Err() != nil {
			s.fail(&f.call, ErrMarshalling, d.Err(), false)
			return
		}
		s.mu.Lock()
		r.memory.proofs = true
		s.mu.Unlock()
		s.authenticate(&f.call, Auth{Scheme: a.Scheme, Data: a.Auth}, false)
		return
	}
	f.touch(body)
	if !s.begin(&f.call) {
		return
	}
	r.heard = time.Now()
	r.asked.Push(f)
	f.ordered = true
	if op == jute.OpSASL { // only the client can log in
		r.bound = true
	}
	f.armLocked(body)
	s.end(&f.call, append(s.enc, body...))
}

// Ping sends a ping. The relay sends none by itself: the session lives as long as its client pings.
func (r *Relay) Ping() {
	s := r.c.s
	s.mu.Lock()
	now, l := time.Now(), s.conn
	r.heard = now
	s.mu.Unlock()
	if l != nil {
		l.ping(now)
	}
}

// resumesLocked reports whether the session continues on another connection without its client's knowledge. For
// a client that is silent it does not.
func (r *Relay) resumesLocked() bool {
	s := r.c.s
	return s.exact && !r.bound && !s.closing && time.Since(r.heard) < s.timeout*2/3
}

// forwarded is a request of a Relay.
type forwarded struct {
	call
	r        *Relay
	xid      int32
	ordered  bool     // it is in asked
	restores []*Watch // by a setWatches
	removes  *jute.RemoveWatchesRequest
	zxid     Zxid
	code     jute.Code
	body     []byte
	answer   *Forwarded // that earlier requests hold up

	// What it reads, or changes. The zero value is for a request that does neither.
	nodes []string
	wide  bool // nodes below those, too, or some that are not known
}

func (f *forwarded) reply(d *jute.Decoder, zxid Zxid, code jute.Code) error {
	f.zxid, f.code, f.body = zxid, code, d.Rest()
	s := f.r.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f.op == jute.OpCloseSession: // the server closes the connection now
		s.closing = true
	case f.removes != nil && code == 0:
		s.watches.take(f.removes.Path, WatchType(f.removes.Type))
	}
	for _, w := range f.restores {
		s.watches.restored(w, code == 0)
	}
	return nil
}

func (f *forwarded) finish(err error) (abandoned bool) {
	r, s := f.r, f.r.c.s
	a := Forwarded{Xid: f.xid, Op: f.op, Zxid: f.zxid, Err: f.code, Body: f.body}
	f.body = nil
	s.mu.Lock()
	if e, ok := errors.AsType[*Error](err); ok {
		switch {
		case errors.Is(e.Cause, errReasonLost):
			a.Err = ErrOperationTimeout // which clients take for a refusal that may pass
		case e.Err == ErrAuthFailed && f.op == jute.OpAuth:
			a.Err = jute.ErrAuthFailed
		case f.op == jute.OpCloseSession && r.expired:
		default:
			a.Lost, a.Expired = err, r.expired
		}
	}
	early := f.ordered && r.asked.Len() > 0 && *r.asked.Front() != f
	early = early && !relayUnordered.Planted()
	if early { // an outcome that came before earlier requests, which were asked again
		a.Body = slices.Clone(a.Body)
		f.answer = &a
		s.mu.Unlock()
		return false
	}
	held := r.answeredInOrderLocked(f)
	r.telling.Add(1)
	s.mu.Unlock()
	r.o.Reply(a)
	for _, a := range held {
		r.o.Reply(*a)
	}
	r.telling.Add(-1)
	r.wake()
	return false
}

// answeredInOrderLocked takes the oldest request out of those asked, and returns the answers that it has held up.
func (r *Relay) answeredInOrderLocked(f *forwarded) (held []*Forwarded) {
	if !f.ordered || r.asked.Len() == 0 {
		return nil
	}
	r.asked.Pop(1)
	for r.asked.Len() > 0 && (*r.asked.Front()).answer != nil {
		held = append(held, (*r.asked.Front()).answer)
		r.asked.Pop(1)
	}
	return held
}

func (f *forwarded) hasCallback() bool { return false }
func (f *forwarded) callback()         {}

// armLocked notes the watches that a request sets or removes.
func (f *forwarded) armLocked(body []byte) {
	d := jute.NewDecoder(body)
	switch f.op {
	case jute.OpExists:
		f.armReadLocked(&d, watchExist)
	case jute.OpGetData:
		f.armReadLocked(&d, watchData)
	case jute.OpGetChildren, jute.OpGetChildren2:
		f.armReadLocked(&d, watchChildren)
	case jute.OpAddWatch:
		var q jute.AddWatchRequest
		if q.Decode(&d); d.Err() == nil {
			f.watch = f.newWatchLocked(watchKindOf(q.Mode), q.Path)
		}
	case jute.OpSetWatches, jute.OpSetWatches2:
		var q jute.SetWatchesRequest
		if f.op == jute.OpSetWatches {
			q.Decode(&d)
		} else {
			q.Decode2(&d)
		}
		if d.Err() != nil {
			return
		}
		for kind, paths := range [watchKinds][]string{q.Data, q.Exist, q.Child, q.Persistent, q.PersistentRecursive} {
			for _, path := range paths {
				w := f.newWatchLocked(watchKind(kind), path)
				w.restored = true
				f.restores = append(f.restores, w)
			}
		}
	case jute.OpRemoveWatches:
		var q jute.RemoveWatchesRequest
		if q.Decode(&d); d.Err() == nil {
			f.removes = &jute.RemoveWatchesRequest{Path: strings.Clone(q.Path), Type: q.Type}
		}
	}
}

func (f *forwarded) armReadLocked(d *jute.Decoder, kind watchKind) {
	var q jute.PathWatchRequest
	if q.Decode(d); d.Err() == nil && q.Watch {
		f.watch = f.newWatchLocked(kind, q.Path)
	}
}

func (f *forwarded) newWatchLocked(kind watchKind, path string) *Watch {
	t := &f.r.c.s.watches
	w := &Watch{kind: kind, full: strings.Clone(path), issued: true, relayed: true}
	t.byPath[kind][w.full] = append(t.byPath[kind][w.full], w)
	return w
}

// touch notes which nodes a request reads or changes.
func (f *forwarded) touch(body []byte) {
	d := jute.NewDecoder(body)
	switch f.op {
	case jute.OpExists, jute.OpGetData, jute.OpGetACL, jute.OpGetChildren, jute.OpGetChildren2,
		jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData, jute.OpSetACL:
		f.nodes = []string{strings.Clone(d.String())} // each begins with its path
	case jute.OpMulti:
		var m jute.MultiRequest
		m.Decode(&d)
		for i := range m.Ops {
			f.nodes = append(f.nodes, m.Ops[i].Path)
			f.wide = f.wide || m.Ops[i].Type == jute.OpDeleteTree
		}
	case jute.OpAddWatch, jute.OpSetWatches, jute.OpSetWatches2, jute.OpRemoveWatches: // a later write has the event, or has it not
		f.wide = true
	case jute.OpMultiRead, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpChildrenPage:
		f.wide = true
	}
	f.wide = f.wide || d.Err() != nil
}

// relayedAgain reports whether an operation can be asked again on another connection, on which the same watches are
// set, in addition to the reads. The session of one that has closed it is not found there.
func relayedAgain(op jute.OpCode) bool {
	switch op {
	case jute.OpCloseSession, jute.OpAddWatch, jute.OpSetWatches, jute.OpSetWatches2, jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpWhoAmI:
		return true
	}
	return false
}

// reads are the nodes that requests under way read.
type reads struct {
	nodes map[string]int
	wide  int
}

// sentLocked is called when a request of a Relay is sent on a connection, answeredLocked when it has its reply.
func (r *Relay) sentLocked(k *call) { r.countLocked(k, 1) }

func (r *Relay) answeredLocked(k *call) {
	r.countLocked(k, -1)
	r.again = nil
}

// connectedLocked is called for each connection, before anything is sent on it. A session that the client has had
// before continues after its last write.
func (r *Relay) connectedLocked(l *link, g *greeting) {
	r.reads, r.replay, r.again, r.missed, r.memory.awaited = reads{}, nil, nil, nil, nil
	r.holder |= jute.HolderTakes
	if l.features&jute.FeatureMoved != 0 { // the servers know whose the session is, and say if it is not any more
		r.holder = r.holder.Name()
	}
	if s := r.c.s; s.calls.Len() == 0 && g.ext.Done > int64(s.seq) {
		s.seq = uint64(g.ext.Done)
	}
}

func (r *Relay) countLocked(k *call, by int) {
	f, ok := k.result.(*forwarded)
	if !ok || exact.Covers(k.op) {
		return
	}
	if f.wide {
		r.reads.wide += by
	}
	for _, node := range f.nodes {
		if r.reads.nodes == nil {
			r.reads.nodes = map[string]int{}
		}
		if r.reads.nodes[node] += by; r.reads.nodes[node] == 0 {
			delete(r.reads.nodes, node)
		}
	}
}

// overtakesLocked reports whether a write would change what a read under way shows, if that had to be asked again.
// A node that is created or deleted changes its parent.
func (r *Relay) overtakesLocked(k *call) bool {
	f, ok := k.result.(*forwarded)
	if !ok || !r.c.s.exact || !exact.Covers(k.op) || r.reads.wide == 0 && len(r.reads.nodes) == 0 {
		return false
	}
	if f.wide || r.reads.wide > 0 {
		return true
	}
	for _, node := range f.nodes {
		overtakes := r.reads.nodes[node] > 0 || r.reads.nodes[jute.Parent(node)] > 0
		overtakes = overtakes && !relayOvertakes.Planted()
		if overtakes {
			return true
		}
	}
	return false
}

// WaitConnected waits until there is a session, and returns what its client has to know of it.
func (r *Relay) WaitConnected(ctx context.Context) (jute.ConnectResponse, error) {
	if err := r.c.WaitConnected(ctx); err != nil {
		return jute.ConnectResponse{}, err
	}
	s := r.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return jute.ConnectResponse{
		TimeoutMs: int32(s.timeout.Milliseconds()), SessionID: s.id, Password: append([]byte(nil), s.password...), ReadOnly: s.state == StateReadOnly,
	}, nil
}
