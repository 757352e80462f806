package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// mayfly is a session with a short timeout and one ephemeral. Its client comes
// and goes, in time to keep it, and at last stays away.
type mayfly struct {
	id       int
	rng      *rand.Rand
	began    time.Time
	addrs    []string
	life     *life
	password []byte
	last     jute.Zxid
	path     string
	made     jute.Zxid // of the ephemeral, 0 before it is acknowledged
	resumed  int
}

func newMayfly(id int, seed uint64, began time.Time, addrs []string, prefix string) *mayfly {
	return &mayfly{id: id, rng: rand.New(rand.NewPCG(seed, uint64(id))), began: began, addrs: addrs, path: fmt.Sprintf("%s/may/%d", prefix, id)}
}

func (m *mayfly) now() int64 { return int64(time.Since(m.began)) }

// run comes and goes until stop is closed, and then abandons the session.
func (m *mayfly) run(stop <-chan struct{}) {
	for {
		if c := m.connect(); c != nil {
			m.visit(c, stop)
			c.Close()
		}
		wait := 5 * time.Millisecond
		switch {
		case m.life == nil:
		case m.life.expired != 0:
			return
		case m.made != 0: // stay away, but come back in time
			wait = time.Duration(m.life.timeout / 10 * int64(1+m.rng.IntN(5)))
		}
		select {
		case <-time.After(wait):
		case <-stop:
			if m.life != nil {
				m.life.abandoned = true
			}
			return
		}
	}
}

func (m *mayfly) connect() *conn {
	r := jute.ConnectRequest{TimeoutMs: int32(1000 + m.rng.IntN(1000)), LastZxidSeen: m.last}
	if m.life != nil {
		r.TimeoutMs = int32(m.life.timeout / 1e6)
		r.SessionID, r.Password = m.life.id, m.password
	}
	call := m.now()
	c, err := dial(m.addrs[m.rng.IntN(len(m.addrs))], r, silence)
	if errors.Is(err, process.ErrExpired) {
		m.life.expired = m.now()
	}
	if err != nil {
		return nil
	}
	if m.life == nil {
		m.life = &life{id: c.Session, timeout: int64(c.Timeout), begun: call}
	} else {
		m.resumed++
	}
	m.password = c.Password
	m.life.touch(call, true)
	return c
}

// visit makes the ephemeral if it is not there, and sends a few pings.
func (m *mayfly) visit(c *conn, stop <-chan struct{}) {
	for range 1 + m.rng.IntN(4) {
		o := &op{code: jute.OpPing}
		if m.made == 0 {
			o = &op{code: jute.OpCreate2, path: m.path, data: fmt.Sprintf("may.%d", m.id), mode: jute.ModeEphemeral}
		}
		if !m.send(c, o) {
			return
		}
		select {
		case <-time.After(time.Duration(m.rng.Int64N(m.life.timeout / 4))):
		case <-stop:
			return
		}
	}
}

// send sends an op and takes its reply.
func (m *mayfly) send(c *conn, o *op) bool {
	call := m.now()
	if o.code == jute.OpPing {
		c.PutXid(jute.XidPing, o.code, nil)
	} else {
		c.Put(o.code, o.request())
	}
	if c.Flush() != nil {
		return false
	}
	h, body, err := c.Next()
	if err != nil || o.answer(h, body) != nil {
		return false
	}
	m.last = max(m.last, h.Zxid)
	switch {
	case o.write() && (o.state == done || o.err == jute.ErrNodeExists): // of an attempt before
		m.made = h.Zxid
	case o.err != 0:
		return false
	}
	m.life.touch(call, o.write())
	return true
}

// checkMayflies checks that nobody has missed an ephemeral before the session's
// time was over, as far as its client can tell.
func checkMayflies(h *history, flies []*mayfly, slack time.Duration) (f findings) {
	for _, o := range h.ops {
		if o.code != jute.OpGetChildren2 || o.path != h.prefix+"/may" || o.state != done {
			continue
		}
		for _, m := range flies {
			if m.made == 0 || o.zxid < m.made || slices.Contains(o.names, path.Base(m.path)) {
				continue
			}
			if early := m.life.touched + m.life.timeout - o.ret - int64(slack); early > 0 {
				f.add("%s of session %v is gone %v too early: %v", m.path, m.life.id, time.Duration(early), o)
			}
		}
	}
	return f
}

// awaitGone waits until the ephemerals of abandoned sessions are gone from a
// server.
func awaitGone(s *server, prefix string) error {
	var left []string
	var last error
	if !process.Poll(func() bool {
		c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 10_000}, silence)
		if last = err; err != nil {
			return false
		}
		defer c.Close()
		o := &op{code: jute.OpGetChildren2, path: prefix + "/may"}
		last = errors.Join(c.do(&op{code: jute.OpSync, path: "/"}), c.do(o), c.do(&op{code: jute.OpCloseSession}))
		left = o.names
		return last == nil && len(left) == 0
	}) {
		return fmt.Errorf("server %d: ephemerals of abandoned sessions are not removed: %q, %w", s.id, left, last)
	}
	return nil
}
