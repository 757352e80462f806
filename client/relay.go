package client

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
)

// A Relay is a session that a program holds with the servers for a client of its own, whose requests it passes
// on as they are, in any of the protocol's forms. When a connection to a server is lost, the client of an
// exactly-once session does not learn of it: its requests are answered on the next connection.
//
// What it decides are the rules of package internal/resume.
//
// Relay is for programs such as zkd edge. Others use Client.
type Relay struct {
	c      *Client
	client RelayClient

	passes  chan struct{}                 // capacity 1, full while something of a server is passed on, and while the relay is held
	passed  atomic.Pointer[chan struct{}] // of Hold: capacity 1, it may look again
	telling atomic.Int32                  // replies that are passed on now
	left    atomic.Bool                   // another relay continues this one

	// Guarded by session.mu.
	rules   *resume.Session         // what it decides
	asked   resume.Queue[Forwarded] // without an answer, or with one that earlier requests hold up
	heard   time.Time               // when the client sent something
	expired bool                    // the servers have said that the session has ended
	holder  jute.Holder             // which the servers know the relay by
	proving int                     // identities of its client that have no answer

	memory fromMemory
}

// Relays make Relays to the same servers, with the same options.
type Relays struct {
	servers []string
	opts    *Options
}

// RelayOptions are what a Relay needs to know of its client.
type RelayOptions struct {
	// Timeout, AllowReadOnly, Insist and User are those of Options for this relay.
	Timeout               time.Duration
	AllowReadOnly, Insist bool
	User                  *string
	// Session is the session that the client resumes, if it does.
	Session SessionKey
	// Seen is the highest zxid that the client has seen.
	Seen Zxid
	// Record, if it is not nil, is that of a Relay which this one continues. All of the above are its.
	Record *RelayRecord
	// Memory, if it is not nil, answers reads where it can. What it has is what the servers let User read.
	Memory Memory
}

// RelayClient is the client of a Relay.
type RelayClient interface {
	// Reply gets the answer to each request of Forward, in their order. Event gets the events of watches, before
	// the replies that show what has changed. Both are called by one goroutine at a time, and delay everything
	// else of the session.
	Reply(Forwarded)
	Event(zxid Zxid, ev jute.WatcherEvent)
	// Attempted is called when a server was tried. err is nil if it has accepted the session.
	Attempted(server string, err error)
	// Carry makes each connection for the session to a server of the connect string, at one of its addresses. open
	// opens one of the session's own, with TLS if the options want it.
	Carry(ctx context.Context, server, address string, open func(context.Context) (net.Conn, error)) (net.Conn, error)
	// Ended is called when the session has ended for its client, after the last reply, and just before Done is closed. It is not
	// called for a relay that another one continues.
	Ended(*Relay)
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

// NewRelays returns what makes Relays. The connect string must have no path. What the options say of a session, its identities and its hooks is not used.
// Several relays need a Rand for several goroutines, or nil.
func NewRelays(servers string, o Options) (*Relays, error) {
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
	o = o.withDefaults()
	return &Relays{list, &o}, nil
}

// New begins to connect a session.
func (m *Relays) New(c RelayClient, o RelayOptions) *Relay {
	if o.Record != nil {
		o = o.Record.options(o)
	}
	s := newSession(m.servers, m.opts)
	s.asks = asks{cmp.Or(o.Timeout, m.opts.Timeout), o.AllowReadOnly, o.Insist, o.User}
	s.timeout = s.asks.timeout
	s.has(o.Session)
	s.lastZxid = o.Seen
	s.relay = &Relay{
		c: &Client{s: s}, client: c, rules: resume.New(o.Seen, 0, nil), heard: time.Now(), holder: jute.Holder(m.opts.Rand.Int32()|2) | jute.HolderTakes,
		passes: make(chan struct{}, 1),
	}
	s.relay.memory.of = o.Memory
	if o.Record != nil {
		s.relay.take(o.Record)
	}
	s.start()
	return s.relay
}

// maxAsked is how many requests of a client may be without an answer before no more are taken. Each takes some 500 bytes besides its own, and a server reads
// no more than some thousand.
const maxAsked = 8192

const (
	maxPings = 16 // without an answer, before a client's further ones are not passed on: they would tell the server nothing more
	// maxProofs is how many identities a client may add, and how many of them may be without an answer before no more are taken. A server has room for
	// half as many names, and takes what has no new one. maxProofBytes is how long all are together.
	maxProofs     = 128
	maxProofBytes = 1 << 20
)

// Client returns the session as a client, for its state. Its operations count as the relay's.
func (r *Relay) Client() *Client { return r.c }

// Done returns a channel that is closed when the session is not, or no longer, connected for its client. All
// requests have their answers then. After a closeSession that a server has answered, it is closed by Abort.
func (r *Relay) Done() <-chan struct{} { return r.c.s.done() }

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
		s.mu.Lock()
		if s.fullLocked() {
			s.waitForRoomLocked(&f.call)
		}
		r.proving++
		s.mu.Unlock()
		d := jute.NewDecoder(body)
		var a jute.AuthRequest
		if a.Decode(&d); d.Err() != nil {
			s.fail(&f.call, ErrMarshalling, d.Err(), false)
			return
		}
		s.mu.Lock()
		r.memory.proofs = true
		r.remembersProofLocked(&a)
		s.mu.Unlock()
		s.authenticate(&f.call, Auth{Scheme: a.Scheme, Data: a.Auth}, false)
		return
	}
	f.request.Of(op, body)
	if !s.begin(&f.call) {
		return
	}
	r.heard = time.Now()
	r.asked.Push(&f.place)
	if op == jute.OpSASL { // only the client can log in
		r.rules.Bound = true
	}
	r.rules.Asks(&f.request, body)
	s.end(&f.call, append(s.enc, body...))
}

// remembersProofLocked is called when the client adds an identity, which the relay has to add on each later connection. With more of them than it
// remembers, the session can't continue on another one.
func (r *Relay) remembersProofLocked(a *jute.AuthRequest) {
	bytes := len(a.Auth)
	for _, e := range r.c.s.auths {
		if bytes += len(e.Data); e.Scheme == a.Scheme && string(e.Data) == string(a.Auth) {
			return
		}
	}
	if len(r.c.s.auths) >= maxProofs || bytes > maxProofBytes {
		r.rules.Bound = true
		r.forgetProofsLocked()
	}
}

// forgetProofsLocked forgets the identities that the server knows, if there will be no other connection.
func (r *Relay) forgetProofsLocked() {
	if s := r.c.s; r.rules.Bound {
		s.auths = slices.DeleteFunc(s.auths, func(a *authEntry) bool { return a.known && len(a.waiting) == 0 })
	}
}

// Ping sends a ping. The relay sends none by itself: the session lives as long as its client pings.
func (r *Relay) Ping() {
	s := r.c.s
	s.mu.Lock()
	now, l := time.Now(), s.conn
	r.heard = now
	sends := l != nil && len(l.pings) < maxPings && !l.gathersLocked(now)
	s.mu.Unlock()
	if sends {
		l.ping(now)
	}
}

// resumesLocked reports whether the session continues on another connection without its client's knowledge. For
// a client that is silent it does not.
func (r *Relay) resumesLocked() bool {
	s := r.c.s
	return !s.closing && r.rules.Resumes(time.Since(r.heard), s.timeout)
}

// forwarded is a request of a Relay.
type forwarded struct {
	call
	r       *Relay
	xid     int32
	request resume.Request
	place   resume.Place[Forwarded]
	zxid    Zxid
	code    jute.Code
	body    []byte
}

func (f *forwarded) reply(d *jute.Decoder, zxid Zxid, code jute.Code) error {
	f.zxid, f.code, f.body = zxid, code, d.Rest()
	s := f.r.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.op == jute.OpCloseSession { // the server closes the connection now
		s.closing = true
	}
	f.r.rules.Answered(&f.request, code)
	return nil
}

func (f *forwarded) finish(err error) (abandoned bool) {
	r, s := f.r, f.r.c.s
	a := Forwarded{Xid: f.xid, Op: f.op, Zxid: f.zxid, Err: f.code, Body: f.body}
	f.body = nil
	s.mu.Lock()
	if f.op == jute.OpAuth {
		r.proving--
	}
	r.rules.Dropped(&f.request)
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
	if r.asked.Waits(&f.place) {
		a.Body = slices.Clone(a.Body)
		r.asked.Keep(&f.place, &a)
		s.mu.Unlock()
		return false
	}
	held := r.asked.Pop(&f.place)
	s.room.Broadcast()
	a.Zxid = r.rules.Header(a.Zxid)
	for _, a := range held {
		a.Zxid = r.rules.Header(a.Zxid)
	}
	r.telling.Add(1)
	s.mu.Unlock()
	r.client.Reply(a)
	for _, a := range held {
		r.client.Reply(*a)
	}
	r.telling.Add(-1)
	r.wake()
	return false
}

func (f *forwarded) hasCallback() bool { return false }
func (f *forwarded) callback()         {}

// connectedLocked is called for each connection, before anything is sent on it.
func (r *Relay) connectedLocked(l *link, g *greeting) {
	r.rules.Connected(l.features)
	r.holder |= jute.HolderTakes
	if l.features&jute.FeatureMoved != 0 { // the servers know whose the session is, and say if it is not any more
		r.holder = r.holder.Name()
	}
	s := r.c.s
	s.seq = uint64(resume.After(int64(s.seq), g.ext.Done, s.calls.Len()))
}

// requestOf returns what the rules know of a call, or nil if it is none of the relay's client.
func requestOf(k *call) *resume.Request {
	if f, ok := k.result.(*forwarded); ok {
		return &f.request
	}
	return nil
}

// sentLocked is called when a request is sent on an exactly-once connection, and answeredLocked when it has its reply.
func (r *Relay) sentLocked(k *call) {
	if q := requestOf(k); q != nil {
		r.rules.Sent(q)
	}
}

func (r *Relay) answeredLocked(k *call) {
	if q := requestOf(k); q != nil {
		r.rules.Done(q)
	}
}

// overtakesLocked reports whether a request has to wait for reads under way.
func (r *Relay) overtakesLocked(k *call) bool {
	q := requestOf(k)
	return q != nil && r.rules.Overtakes(q)
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
