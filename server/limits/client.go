package limits

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// Client is one connection: the meters of its address and of each of its identities. It counts
// for all of them, so that no client passes the limit of an identity by proving another one,
// too. Only Sent and Settle may be called from other goroutines than the one that owns the Client.
type Client struct {
	table   *Table
	uses    func(Resource) int64
	session jute.SessionID
	parties []party                  // the address, then the identities
	sent    atomic.Int64             // bytes that are not charged yet
	bytes   atomic.Pointer[[]*meter] // of all parties, for Settle
}

// party is what a client counts for: its address, or one of its identities.
type party struct {
	who     Who // zero for the address
	meters  [numResources]*meter
	counted bool // whether the meter of connections counts this one
}

// Who is an identity of a client.
type Who struct {
	Name string // scheme:id, for rules and for the log
	Key  string // what tells it from others of that name; it is not shown
}

// Open returns a client at an address that has no identity yet. It returns false if its
// address has too many connections; the client must be closed in either case. uses returns
// how many watches or ephemerals the client has. It is called without locks, from any
// goroutine, until Close.
func (t *Table) Open(address string, uses func(Resource) int64) (c *Client, ok bool) {
	c = &Client{table: t, uses: uses, parties: make([]party, 1)}
	at := &c.parties[0]
	for resource := range numResources {
		r, subject := t.ofAddress(address, resource)
		at.meters[resource] = t.hold(r, resource, subject, subject, c)
	}
	c.metersChanged()
	return c, c.connect(at)
}

// metersChanged makes Settle charge the meters of the present parties.
func (c *Client) metersChanged() {
	var list []*meter
	for i := range c.parties {
		if m := c.parties[i].meters[Bytes]; m != nil {
			list = append(list, m)
		}
	}
	c.bytes.Store(&list)
}

// Close gives back what the connection holds. Its session is counted until it ends.
func (c *Client) Close() {
	for i := range c.parties {
		c.leave(&c.parties[i])
	}
	c.parties = nil
	c.metersChanged()
}

// leave releases the meters of a party.
func (c *Client) leave(p *party) {
	if p.counted {
		p.counted = false
		p.meters[Connections].remove(1)
	}
	for resource, m := range p.meters {
		if m != nil {
			c.table.release(m, c)
			p.meters[resource] = nil
		}
	}
}

// connect counts the connection.
func (c *Client) connect(p *party) bool {
	m := p.meters[Connections]
	if m == nil {
		return true
	}
	ok, exceeds := m.add(1, nil)
	p.counted = ok
	return c.table.note(m, ok, exceeds)
}

// note counts a refusal or notes a burst. It returns ok.
func (t *Table) note(m *meter, ok, exceeds bool) bool {
	if !ok {
		m.stats.refused.Add(1)
	}
	if exceeds {
		t.exceeds(m)
	}
	return ok
}

// Identify gives the client other identities. It returns false if one of them has too many
// connections or sessions: the connection must end.
func (c *Client) Identify(now time.Duration, all []Who, exists func(jute.SessionID) bool) bool {
	defer c.metersChanged()
	stay := c.parties[:1:1]
	for _, p := range c.parties[1:] {
		if slices.Contains(all, p.who) {
			stay = append(stay, p)
			continue
		}
		if m := p.meters[Sessions]; m != nil {
			m.removeSession(c.session)
		}
		c.leave(&p)
	}
	c.parties = stay
	for _, who := range all {
		if !slices.ContainsFunc(c.parties[1:], func(p party) bool { return p.who == who }) && !c.identifyAs(now, who, exists) {
			return false
		}
	}
	return true
}

// identifyAs gives the client one more identity.
func (c *Client) identifyAs(now time.Duration, who Who, exists func(jute.SessionID) bool) bool {
	p := party{who: who}
	for resource := range numResources {
		r := c.table.ofIdentity(who.Name, resource)
		p.meters[resource] = c.table.hold(r, resource, who.Key, who.Name, c)
	}
	ok := c.connect(&p) && (c.session == 0 || c.addSession(&p, now, false, exists))
	c.parties = append(c.parties, p)
	return ok
}

// OpenSession counts the session that the client opens or resumes. It returns false if it
// may open no more. A session is never refused that is resumed.
func (c *Client) OpenSession(now time.Duration, id jute.SessionID, resumed bool, exists func(jute.SessionID) bool) bool {
	c.session = id
	for i := range c.parties {
		if !c.addSession(&c.parties[i], now, resumed, exists) {
			return false
		}
	}
	return true
}

// SessionOpened says that the session exists.
func (c *Client) SessionOpened(now time.Duration) {
	for i := range c.parties {
		if m := c.parties[i].meters[Sessions]; m != nil {
			m.established(now, c.session)
		}
		if m := c.parties[i].meters[Ephemerals]; m != nil {
			m.outdated() // a session that is resumed brings its own
		}
	}
}

func (c *Client) addSession(p *party, now time.Duration, resumed bool, exists func(jute.SessionID) bool) bool {
	m := p.meters[Sessions]
	if m == nil {
		return true
	}
	ok, exceeds := m.addSession(now, c.session, resumed, exists)
	return c.table.note(m, ok, exceeds)
}

// Counts reports whether watches or ephemerals are limited.
func (c *Client) Counts(r Resource) bool {
	return slices.ContainsFunc(c.parties, func(p party) bool { return p.meters[r] != nil })
}

// Use counts n more watches or ephemerals. It returns false if they are refused.
func (c *Client) Use(r Resource, n int64) bool {
	for i := range c.parties {
		m := c.parties[i].meters[r]
		if m == nil {
			continue
		}
		ok, exceeds := m.add(n, func() int64 { return c.table.count(m) })
		if !c.table.note(m, ok, exceeds) {
			return false // what the other parties have counted is corrected by their next counts
		}
	}
	return true
}

// Restored says that the client has got watches which Use did not count.
func (c *Client) Restored() {
	for i := range c.parties {
		if m := c.parties[i].meters[Watches]; m != nil {
			m.outdated()
		}
	}
}

// Opening charges a connection that is opened, as Take charges a request.
func (c *Client) Opening(now, patience time.Duration) (wait time.Duration, ok bool) {
	if m := c.parties[0].meters[Openings]; m != nil {
		return c.take(now, patience, []*meter{m}, 1, 1)
	}
	return 0, true
}

// Sent charges bytes that were sent to the client. It may be called from any goroutine.
func (c *Client) Sent(n int64) { c.sent.Add(n) }

// Settle charges what was sent so far, which the next request would be charged for. It returns how long nothing more should be
// sent by which nobody waits for an answer, as changes that a feed tells. It may be called from any goroutine.
func (c *Client) Settle(now time.Duration) (wait time.Duration) {
	list := *c.bytes.Load()
	if len(list) == 0 {
		return 0
	}
	sent := c.sent.Swap(0)
	for _, m := range list {
		if sent > 0 {
			if _, exceeds := m.take(now, sent); exceeds {
				c.table.exceeds(m)
			}
		}
		w := m.wait(now)
		if w > 0 && sent > 0 {
			m.stats.slowed.Add(1)
		}
		wait = max(wait, w)
	}
	return wait
}

// LimitsPaths reports whether Take has to know the paths of requests.
func (t *Table) LimitsPaths() bool {
	s := t.paths.Load()
	return s.limits[Requests] || s.limits[Bytes]
}

// Take charges a request of size bytes that is about some paths. It returns how long the
// request has to wait before it is handled. If that is longer than patience, the request
// is refused and costs nothing; it has to wait for patience.
func (c *Client) Take(now, patience time.Duration, size int64, paths []string) (wait time.Duration, ok bool) {
	var list [8]*meter
	meters := c.appendRates(list[:0])
	own := len(meters)
	return c.take(now, patience, c.table.appendPaths(meters, paths), own, size)
}

// take charges meters, the first of which are the client's own.
func (c *Client) take(now, patience time.Duration, meters []*meter, own int, size int64) (wait time.Duration, ok bool) {
	for _, m := range meters {
		if m.wait(now) > patience {
			m.stats.refused.Add(1)
			return patience, false
		}
	}
	sent := c.sent.Swap(0)
	for i, m := range meters {
		n := int64(1)
		switch {
		case m.resource == Bytes && i < own:
			n = size + sent
		case m.resource == Bytes:
			n = size
		}
		w, exceeds := m.take(now, n)
		if w > 0 {
			m.stats.slowed.Add(1)
		}
		if exceeds {
			c.table.exceeds(m)
		}
		wait = max(wait, w)
	}
	return wait, true
}

// appendRates appends the client's meters of rates.
func (c *Client) appendRates(list []*meter) []*meter {
	for i := range c.parties {
		for _, r := range [...]Resource{Requests, Bytes} {
			if m := c.parties[i].meters[r]; m != nil {
				list = append(list, m)
			}
		}
	}
	return list
}

// appendPaths appends the meters of the subtrees that have paths, each once.
func (t *Table) appendPaths(list []*meter, paths []string) []*meter {
	from := len(list)
	var seen map[*meter]bool // for a multi with many paths
	for _, path := range paths {
		for _, r := range [...]Resource{Requests, Bytes} {
			m := t.meterOf(path, r)
			if m == nil || seen[m] || seen == nil && slices.Contains(list[from:], m) {
				continue
			}
			list = append(list, m)
			switch {
			case seen != nil:
				seen[m] = true
			case len(list)-from == fewMeters:
				seen = make(map[*meter]bool)
				for _, m := range list[from:] {
					seen[m] = true
				}
			}
		}
	}
	return list
}

// fewMeters are looked through faster than a map.
const fewMeters = 16
