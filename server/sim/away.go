package sim

import (
	"slices"

	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
	readonly "github.com/zkd-project/zkd/server/away"
)

// Away: some clients accept a read-only session, and get one from an edge whose memory has had no server for a while. It shows what is known, by package away, until there
// is a server again. The checks of clients hold in such a session and across its end; a write is refused: X7.

// acceptsAway reports whether a client accepts a read-only session.
func (s *Sim) acceptsAway(c *client) bool { return s.cfg.Away && c.id%2 == 1 }

// noteServers begins and ends the time in which the memory has no server.
func (m *memory) noteServers() {
	s := m.s
	has := slices.ContainsFunc(m.trees, func(t *cached) bool { return t.feed != nil })
	switch {
	case has && m.alone != 0:
		m.alone = 0
		for _, c := range s.clients {
			if e := c.relay; e != nil && e.edge == m.edge && e.away != nil && !e.over {
				e.over = true
				e.tell(&reply{closed: true})
			}
		}
	case !has && m.alone == 0:
		m.alone = s.now
	}
}

// away reports whether the memory has no server, and what may be shown to a client that has seen up to a zxid.
func (m *memory) away(seen jute.Zxid) bool {
	known := jute.Zxid(-1)
	for _, t := range m.trees {
		if t.known {
			known = max(known, t.copy.Version)
		}
	}
	return m.alone != 0 && m.s.now-m.alone >= m.s.cfg.SessionMs*50 && seen <= known
}

// seeLast calls take with what was known last of a path.
func (m *memory) seeLast(path string, take func(*resume.Remembered)) bool {
	for _, t := range m.trees {
		if !t.tree.Holds(path) || !t.known {
			continue
		}
		n, known := t.copy.Look(path)
		if known {
			take(&n)
		}
		return known
	}
	return false
}

// beginAway gives a client a read-only session, if it is to have one.
func (e *relay) beginAway() bool {
	m := e.memory()
	if m == nil || e.born || e.away != nil || !e.s.acceptsAway(e.c) || !m.away(e.asked.seen) {
		return false
	}
	e.s.stats.AwaySessions++
	e.c.attempt++ // what comes of earlier attempts does not count
	e.away = &readonly.Session{Look: m.seeLast, Seen: e.asked.seen}
	e.tell(&reply{kind: e.asked.kind, session: e.asked.session, timeout: e.asked.timeout, zxid: e.asked.seen, readOnly: true})
	return true
}

// answersAway answers a request of a read-only session.
func (e *relay) answersAway(req *request) {
	w := req.wire(false)
	reads := e.away.Reads
	out, ends := e.away.Answer(nil, jute.RequestHeader{Xid: req.cxid, Type: w.Op}, w.Body)
	e.s.stats.AwayReads += e.away.Reads - reads
	for len(out) > 0 {
		d := jute.NewDecoder(out)
		frame := jute.NewDecoder(d.Buffer())
		out = d.Rest()
		var h jute.ReplyHeader
		if h.Decode(&frame); h.Xid == jute.XidNotification {
			var ev jute.WatcherEvent
			ev.Decode(&frame)
			e.s.stats.AwayEvents++
			e.tell(&reply{event: ev.Type, path: ev.Path})
			continue
		}
		e.tell(&reply{kind: req.kind, cxid: req.cxid, zxid: h.Zxid, err: h.Err, refused: h.Err == jute.ErrNotReadOnly, path: req.path, exists: h.Err == 0, readOnly: true})
	}
	if ends {
		e.over = true
		e.tell(&reply{closed: true})
	}
}

// connectedAway completes an attempt to connect that gives a client a read-only session.
func (s *Sim) connectedAway(c *client, r *reply) {
	s.checkSeen(c, r.zxid)
	c.node, c.origin, c.felt, c.readOnly = 0, 0, 0, true
	c.inFlight = c.inFlight[:0]
	s.restoreWatches(c)
}

// knownAway returns the zxid of the state in which the edge of a read-only session knows a node, or 0. Its answers may have an older one, that of the newest
// change that they show.
func (c *client) knownAway(path string) (known jute.Zxid) {
	if !c.readOnly || c.relay == nil || c.relay.memory() == nil {
		return 0
	}
	for _, t := range c.relay.memory().trees {
		if t.known && t.tree.Holds(path) {
			known = max(known, t.copy.Version)
		}
	}
	return known
}

// chooseAway draws a request of a client with a read-only session.
func (s *Sim) chooseAway(c *client, req *request) {
	if req.kind = reqRead; s.percent(80) {
		s.chooseOneShot(c, req)
		return
	}
	if req.kind = reqSync; s.percent(50) {
		req.kind = reqWrite
		s.chooseWrite(req)
	}
}

// checkAway checks an answer in a read-only session: X7.
func (s *Sim) checkAway(c *client, req *request, r *reply) {
	if done := r.err != jute.ErrNotReadOnly && (req.kind == reqWrite || req.kind == reqSync); done {
		s.fail("X7", "client %d has a read-only session, and is answered %v with code %d", c.id, req, r.err)
	}
	if req.kind != reqRead || r.refused {
		return
	}
	if g := &s.ghost; req.path != "" && req.path != "/" && r.exists != g.exists(req.path, r.zxid) {
		s.fail("X7", "client %d is shown that %s exists: %v; at %v that is not so", c.id, req.path, r.exists, r.zxid)
	}
}
