package clients

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/limits"
)

// patience is the longest time for which a rate makes a request wait, or a third of the
// session's timeout, if that is shorter: a client must hear from the server in time.
const patience = time.Second

// freePing is the time in which one ping of a connection is not charged: a client without other
// requests needs some to keep its session.
const freePing = time.Second

// leastPause is the shortest pause. Afterwards the connection may handle at once what has come
// to its turn meanwhile, and so a high rate costs few pauses.
const leastPause = 5 * time.Millisecond

var (
	errTooManyConnections = errors.New("more connections of its identity than a rule zkd.limit allows")
	errTooManyOpenings    = errors.New("more connections a second from its address than a rule zkd.limit allows")
	errTooManySessions    = errors.New("more sessions than a rule zkd.limit allows")
)

// limiter applies the rules that limit clients to one connection. Except for admit, end, uses, sent, settle and wakeLocked,
// only the connection's reader may call its methods.
type limiter struct {
	rules    *rules
	line     *guardedLine
	identity *identity
	present  atomic.Pointer[limited] // nil without rules; only the reader stores it
}

// limited is what a connection counts for under one table of rules.
type limited struct {
	*limits.Client
	table *limits.Table

	// Owned by the reader.
	creds    *auth.Credentials // from which the identity and super follow
	super    bool              // the client is the super user, which is not limited
	session  jute.SessionID    // that Client counts
	refusal  jute.Code         // of the request being handled
	paths    []string          // of the request being charged
	pingFree time.Duration     // when the next ping is free

	wake chan struct{} // ends a pause; guarded by limiter.line, nil without a pause
}

// admit applies the rules to a new connection. It reports whether the address of
// the client may have one more.
func (m *limiter) admit() bool {
	t := m.rules.table.Load()
	if t == nil {
		return true
	}
	l, ok := m.open(t)
	if !ok {
		l.Close()
		return false
	}
	m.present.Store(l)
	return true
}

// awaitOpening makes a new connection wait for its turn, before anything is read from it.
func (m *limiter) awaitOpening(done <-chan struct{}) error {
	l := m.present.Load()
	if l == nil {
		return nil
	}
	wait, ok := l.Opening(m.rules.now(), patience)
	if wait > 0 {
		if err := m.pause(wait, done); err != nil {
			return err
		}
	}
	if !ok {
		return errTooManyOpenings
	}
	return nil
}

func (m *limiter) open(t *limits.Table) (l *limited, ok bool) {
	client, ok := t.Open(m.identity.ip(), m.uses)
	return &limited{Client: client, table: t, creds: m.identity.credentials.Load()}, ok
}

// current returns what the present rules are for the connection, or nil if there are
// none. A connection that was there before these rules is not refused.
func (m *limiter) current() *limited {
	t, l := m.rules.table.Load(), m.present.Load()
	if t == nil && l == nil || l != nil && l.table == t {
		return l
	}
	m.end()
	if t == nil {
		m.present.Store(nil)
		return nil
	}
	l, _ = m.open(t)
	l.creds = nil
	_ = m.identify(l) // its error would end the connection
	m.present.Store(l)
	m.sessionOpened()
	return l
}

// end gives back what the connection counts for.
func (m *limiter) end() {
	if l := m.present.Load(); l != nil {
		l.Close()
	}
}

// sent counts bytes that were sent to the client.
func (m *limiter) sent(n int) {
	if l := m.present.Load(); l != nil {
		l.Sent(int64(n))
	}
}

// settle returns how long the feeds of the connection have to wait for its rate of bytes.
func (m *limiter) settle() time.Duration {
	l := m.present.Load()
	if l == nil || auth.IsSuper(m.identity.ids()) {
		return 0
	}
	return l.Settle(m.rules.now())
}

// uses returns how many watches or ephemerals the client has, with those of the requests
// that wait. It may be called from any goroutine.
func (m *limiter) uses(r limits.Resource) (n int64) {
	state := m.rules.state
	if r == limits.Ephemerals {
		state.RLock()
		n = int64(state.Tree.NumEphemerals(m.line.SessionID()))
		state.RUnlock()
	} else if w, ok := m.line.WatchHandle(); ok {
		n = int64(state.Watches.CountOf(w))
	}
	m.line.Lock()
	defer m.line.Unlock()
	pending := m.line.Waiting.All()
	for i := range pending {
		if pending[i].Refusal == 0 {
			n += usesOf(r, &pending[i])
		}
	}
	return n
}

// usesOf returns how many watches a request sets, or how many ephemerals it creates.
func usesOf(r limits.Resource, req *line.Request) int64 {
	if r == limits.Ephemerals {
		return req.Ephemerals()
	}
	switch req.Op {
	case jute.OpAddWatch:
		return 1
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		var p jute.PathWatchRequest
		d := jute.NewAliasDecoder(req.Body)
		if p.Decode(&d); d.Err() == nil && p.Watch {
			return 1
		}
	}
	return 0
}

// identify gives the limits the identities of the connection: all that it has proved, beyond its
// address.
func (m *limiter) identify(l *limited) error {
	creds := m.identity.credentials.Load()
	if creds == l.creds {
		return nil
	}
	l.creds, l.super = creds, auth.IsSuper(creds.IDs())
	var all []limits.Who
	for _, id := range creds.IDs() {
		if id.Scheme != "ip" && id.Scheme != "super" {
			all = append(all, limits.Who{Name: id.Scheme + ":" + auth.User(id), Key: id.Scheme + ":" + id.ID})
		}
	}
	if !l.Identify(m.rules.now(), all, m.rules.sessions.exists) && !l.super {
		return errTooManyConnections
	}
	return nil
}

// mayOpen reports whether the client may open the new session id.
func (m *limiter) mayOpen(id jute.SessionID) error {
	l := m.present.Load()
	if l == nil {
		return nil
	}
	if err := m.identify(l); err != nil {
		return err
	}
	l.session = id
	if !l.OpenSession(m.rules.now(), id, false, m.rules.sessions.exists) && !l.super {
		return errTooManySessions
	}
	return nil
}

// sessionOpened counts the session that the connection has now, if it was resumed.
func (m *limiter) sessionOpened() {
	l := m.present.Load()
	if l == nil {
		return
	}
	now := m.rules.now()
	if id := m.line.SessionID(); id != l.session {
		l.session = id
		l.OpenSession(now, id, true, m.rules.sessions.exists)
	}
	l.SessionOpened(now)
}

// charge charges a frame to the rates. It returns how long the request has to wait, and
// decides whether it will be refused.
func (m *limiter) charge(frame []byte) (wait time.Duration, err error) {
	l := m.current()
	if l == nil {
		return 0, nil
	}
	l.refusal = 0
	if err := m.identify(l); err != nil {
		return 0, err
	}
	var h jute.RequestHeader
	d := jute.NewAliasDecoder(frame)
	h.Decode(&d)
	if l.super || d.Err() != nil || h.Type == jute.OpCloseSession || h.Type == jute.OpPing && l.freePing(m.rules.now()) {
		return 0, nil
	}
	l.paths = l.paths[:0]
	if l.table.LimitsPaths() {
		l.paths = appendPaths(l.paths, h.Type, d.Rest())
	}
	most := min(patience, time.Duration(m.line.Session.TimeoutMs())*time.Millisecond/3)
	wait, ok := l.Take(m.rules.now(), most, int64(4+len(frame)), l.paths)
	if !ok {
		l.refusal = m.rules.code(jute.ErrThrottledOp)
	}
	return wait, nil
}

// pingsFree reports whether the client, with these credentials, may ping now, at no cost.
func (m *limiter) pingsFree(creds *auth.Credentials) bool {
	t, l := m.rules.table.Load(), m.present.Load()
	if l == nil {
		return t == nil
	}
	return l.table == t && l.creds == creds && (l.super || l.freePing(m.rules.now()))
}

// freePing reports whether a ping costs nothing now.
func (l *limited) freePing(now time.Duration) bool {
	if now < l.pingFree {
		return false
	}
	l.pingFree = now + freePing
	return true
}

// appendPaths appends the paths that a request is about.
func appendPaths(list []string, op jute.OpCode, body []byte) []string {
	d := jute.NewAliasDecoder(body)
	switch op {
	case jute.OpMulti, jute.OpMultiRead:
		var m jute.MultiRequest
		m.Decode(&d)
		for i := range m.Ops {
			list = append(list, m.Ops[i].Path)
		}
	case jute.OpPing, jute.OpSetWatches, jute.OpSetWatches2, jute.OpAuth, jute.OpSASL, jute.OpCredit, jute.OpUnsubscribe:
	default:
		if path := d.String(); d.Err() == nil {
			list = append(list, path)
		}
	}
	return list
}

// refuses decides whether the limits refuse a request. What a client can't do without is
// never refused, such as to restore its watches.
func (m *limiter) refuses(req *line.Request) bool {
	l := m.present.Load()
	switch {
	case l == nil, l.super, req.Op == jute.OpPing, req.Op == jute.OpCloseSession, req.Op == jute.OpCredit, req.Op == jute.OpUnsubscribe:
		return false
	case req.Op == jute.OpSetWatches, req.Op == jute.OpSetWatches2:
		l.Restored()
		return false
	case l.refusal != 0:
		req.Refusal = l.refusal
		return true
	}
	for _, r := range [...]limits.Resource{limits.Watches, limits.Ephemerals} {
		if !l.Counts(r) {
			continue
		}
		if n := usesOf(r, req); n > 0 && !l.Use(r, n) {
			req.Refusal = m.rules.code(jute.ErrQuotaExceeded)
			return true
		}
	}
	return false
}

// pause makes the reader wait, unless the connection ends meanwhile: then it returns
// errHangUp. TCP slows the client down. done is closed when the connection is torn down.
func (m *limiter) pause(d time.Duration, done <-chan struct{}) error {
	wake, l := make(chan struct{}), m.present.Load()
	m.line.Lock()
	over := m.line.endsLocked()
	l.wake = wake
	m.line.Unlock()
	if over {
		return errHangUp
	}
	t := time.NewTimer(max(d, leastPause))
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-done:
	}
	m.line.Lock()
	l.wake = nil
	m.line.Unlock()
	if m.line.isOver() {
		return errHangUp
	}
	return nil
}

// wakeLocked ends a pause.
func (m *limiter) wakeLocked() {
	if l := m.present.Load(); l != nil && l.wake != nil {
		close(l.wake)
		l.wake = nil
	}
}
