package clients

import (
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/limits"
)

// patience is the longest time for which a rate makes a request wait. Where a third of the
// session's timeout is shorter, that is: a client must hear from the server in time.
const patience = time.Second

// freePing is the time in which one ping of a connection is not charged: a client without other
// requests needs some to keep its session.
const freePing = time.Second

// leastPause is the shortest pause. Afterwards the connection may handle at once what has come
// to its turn meanwhile, and so a high rate costs few pauses.
const leastPause = 5 * time.Millisecond

var (
	errTooManyConnections = errors.New("more connections of its identity than a rule zkd.limit allows")
	errTooManySessions    = errors.New("more sessions than a rule zkd.limit allows")
)

// limited is what a connection has only if there are rules that limit clients.
type limited struct {
	*limits.Client
	clients *Clients
	table   *limits.Table

	// Owned by the reader.
	creds    *auth.Credentials // from which the identity and super follow
	super    bool              // the client is the super user, which is not limited
	session  jute.SessionID    // that Client counts
	refusal  jute.Code         // of the request being handled
	paths    []string          // of the request being charged
	pingFree time.Duration     // when the next ping is free

	wake chan struct{} // ends a pause; guarded by conn.mu, nil without a pause
}

// limitConnection applies the rules to a new connection. It reports whether the address of
// the client may have one more.
func (s *Clients) limitConnection(c *conn) bool {
	t := s.limits.Load()
	if t == nil {
		return true
	}
	l, ok := s.newLimited(c, t)
	if !ok {
		l.Close()
		return false
	}
	c.limited.Store(l)
	return true
}

func (s *Clients) newLimited(c *conn, t *limits.Table) (l *limited, ok bool) {
	client, ok := t.Open(c.ip(), c.uses)
	return &limited{Client: client, clients: s, table: t, creds: c.credentials.Load()}, ok
}

// currentLimits returns what the present rules are for the connection, or nil if there are
// none. A connection that was there before these rules is not refused. Only the reader may
// call it.
func (c *conn) currentLimits() *limited {
	s, l := c.clients, c.limited.Load()
	t := s.limits.Load()
	if t == nil && l == nil || l != nil && l.table == t {
		return l
	}
	c.endLimits()
	if t == nil {
		c.limited.Store(nil)
		return nil
	}
	l, _ = s.newLimited(c, t)
	l.creds = nil
	_ = l.identify(c) // its error would end the connection
	c.limited.Store(l)
	c.sessionOpened()
	return l
}

// endLimits gives back what the connection counts for.
func (c *conn) endLimits() {
	if l := c.limited.Load(); l != nil {
		l.Close()
	}
}

// uses returns how many watches or ephemerals the client has, with those of the requests
// that wait. It may be called from any goroutine.
func (c *conn) uses(r limits.Resource) (n int64) {
	state := c.clients.state
	if r == limits.Ephemerals {
		state.RLock()
		n = int64(state.Tree.NumEphemerals(c.line.SessionID()))
		state.RUnlock()
	} else if w, ok := c.line.WatchHandle(); ok {
		n = int64(state.Watches.CountOf(w))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	pending := c.line.Queued()
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
func (l *limited) identify(c *conn) error {
	creds := c.credentials.Load()
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
	if !l.Identify(c.clients.now(), all, c.clients.sessionExists) && !l.super {
		return errTooManyConnections
	}
	return nil
}

// sessionExists reports whether there is a session.
func (s *Clients) sessionExists(id jute.SessionID) bool {
	_, global := s.globalSession(id)
	return global || s.locals.Get(id) != nil
}

// mayOpen reports whether the client may open the new session id.
func (c *conn) mayOpen(id jute.SessionID) error {
	l := c.limited.Load()
	if l == nil {
		return nil
	}
	if err := l.identify(c); err != nil {
		return err
	}
	l.session = id
	if !l.OpenSession(c.started, id, false, c.clients.sessionExists) && !l.super {
		return errTooManySessions
	}
	return nil
}

// sessionOpened counts the session that the connection has now, if it was resumed.
func (c *conn) sessionOpened() {
	l := c.limited.Load()
	if l == nil {
		return
	}
	if id := c.line.SessionID(); id != l.session {
		l.session = id
		l.OpenSession(c.started, id, true, c.clients.sessionExists)
	}
	l.SessionOpened(c.clients.now())
}

// charge charges a frame to the rates. It returns how long the request has to wait, and
// decides whether it will be refused.
func (l *limited) charge(c *conn, frame []byte) (wait time.Duration, err error) {
	l.refusal = 0
	if err := l.identify(c); err != nil {
		return 0, err
	}
	var h jute.RequestHeader
	d := jute.NewAliasDecoder(frame)
	h.Decode(&d)
	if l.super || d.Err() != nil || h.Type == jute.OpCloseSession || h.Type == jute.OpPing && l.freePing(c.clients.now()) {
		return 0, nil
	}
	l.paths = l.paths[:0]
	if l.table.LimitsPaths() {
		l.paths = appendPaths(l.paths, h.Type, d.Rest())
	}
	most := min(patience, time.Duration(c.line.TimeoutMs())*time.Millisecond/3)
	wait, ok := l.Take(c.clients.now(), most, int64(4+len(frame)), l.paths)
	if !ok {
		l.refusal = c.clients.limitCode(jute.ErrThrottledOp)
	}
	return wait, nil
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
func (l *limited) refuses(req *line.Request) bool {
	switch {
	case l.super, req.Op == jute.OpPing, req.Op == jute.OpCloseSession, req.Op == jute.OpCredit, req.Op == jute.OpUnsubscribe:
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
			req.Refusal = l.clients.limitCode(jute.ErrQuotaExceeded)
			return true
		}
	}
	return false
}

// limitCode returns the code with which a request is refused, given the one that says why.
// Clients older than that one can lose their connection's thread over it (kazoo).
func (s *Clients) limitCode(exact jute.Code) jute.Code {
	switch {
	case s.live.Load().LimitCodes == "exact":
		return exact
	case exact == jute.ErrThrottledOp:
		return jute.ErrOperationTimeout
	}
	return jute.ErrNoAuth
}

// pause makes the reader wait, unless the connection ends meanwhile: then it returns
// errHangUp. TCP slows the client down.
func (c *conn) pause(d time.Duration) error {
	wake, l := make(chan struct{}), c.limited.Load()
	c.mu.Lock()
	over := c.line.Ends() || c.mu.draining
	l.wake = wake
	c.mu.Unlock()
	if over {
		return errHangUp
	}
	t := time.NewTimer(max(d, leastPause))
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-c.done:
	}
	c.mu.Lock()
	l.wake = nil
	c.mu.Unlock()
	if c.isOver() {
		return errHangUp
	}
	return nil
}

// interruptLocked makes the reader look at once whether the connection ends.
func (c *conn) interruptLocked() {
	c.nc.SetReadDeadline(time.Now())
	c.unparkLocked()
	if l := c.limited.Load(); l != nil && l.wake != nil {
		close(l.wake)
		l.wake = nil
	}
}

// setLimits makes a new table of limits if the rules are others than before, which is nil at
// the start. Rates and counts begin again. A connection that is there counts in the new table from its next request on,
// which is a ping at the latest.
func (s *Clients) setLimits(before, cfg *config.Config) {
	switch {
	case before != nil && before.LimitsInQuota == cfg.LimitsInQuota && slices.Equal(before.Limits, cfg.Limits):
	case len(cfg.Limits) == 0 && !cfg.LimitsInQuota:
		s.limits.Store(nil)
	default:
		s.limits.Store(limits.New(cfg.Limits, s.state.HasNode))
	}
}

// quotaRates are the limits in /zookeeper/quota as they were last read. The housekeeper
// owns them.
type quotaRates struct {
	table    *limits.Table
	tree     *datatree.Tree
	version  uint64
	subtrees int // that have limits
}

// followQuota reads the limits in /zookeeper/quota if they have changed.
func (s *Clients) followQuota(t *limits.Table) {
	if !s.live.Load().LimitsInQuota {
		return
	}
	texts := make(map[string]string)
	s.state.RLock()
	tree := s.state.Tree
	last := &s.quotaRates
	version := tree.RatesVersion()
	changed := t != last.table || tree != last.tree || version != last.version
	if changed {
		for path, data := range tree.Rates() {
			texts[path] = string(data)
		}
	}
	s.state.RUnlock()
	if !changed {
		return
	}
	var rules []limits.Rule
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		rule, err := limits.ParseRates(path, texts[path])
		if err != nil {
			s.log.Warn("can't read the limits in /zookeeper/quota", zap.String("path", path), zap.Error(err))
			continue
		}
		rules = append(rules, rule)
	}
	t.Follow(rules)
	if len(rules)+last.subtrees > 0 {
		s.log.Info("limits in /zookeeper/quota have changed", zap.Int("subtrees", len(rules)))
	}
	*last = quotaRates{t, tree, version, len(rules)}
}

// tickLimits follows changes of the limits, and reports the bursts above them.
func (s *Clients) tickLimits(now time.Duration) {
	t := s.limits.Load()
	if t == nil {
		return
	}
	s.followQuota(t)
	t.Tick(now, s.sessionExists)
	for _, b := range t.Bursts() {
		s.log.Warn("a limit is exceeded", zap.String("rule", b.Rule), zap.Stringer("resource", b.Resource),
			zap.String("subject", b.Subject), zap.Int64("limit", b.Limit), zap.Bool("hard", b.Hard))
	}
}
