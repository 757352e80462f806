package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// tale makes up a history as a server without faults gives it. Each op takes 10 ns
// and follows the one before.
type tale struct {
	h     *history
	zxid  jute.Zxid
	nodes map[string]*told
	logs  []*connLog // by client
	tags  int
	reads []*op // of the state at the end
}

// told is a node, as it is now.
type told struct {
	data string
	stat jute.Stat
}

func newTale() *tale {
	s := &tale{h: &history{prefix: "/t", before: 100, lives: make(map[jute.SessionID]*life)}, zxid: 100, nodes: make(map[string]*told)}
	for _, o := range skeleton("/t") {
		s.nodes[o.path] = &told{stat: jute.Stat{Czxid: 50, Mzxid: 50}}
	}
	for id := range 2 {
		log := &connLog{client: id, server: id + 1, session: jute.SessionID(id + 1), seen: 100}
		s.logs = append(s.logs, log)
		s.h.logs = append(s.h.logs, log)
		s.h.lives[log.session] = &life{id: log.session, timeout: 1000}
	}
	return s
}

// op adds an op of a client, with its answer.
func (s *tale) op(client int, o *op) *op {
	call := int64(10 * (len(s.h.ops) + 1))
	o.client, o.conn, o.session = client, s.logs[client], s.logs[client].session
	o.call, o.ret, o.state, o.zxid = call, call+5, done, s.zxid
	s.h.ops = append(s.h.ops, o)
	s.logs[client].frames = append(s.logs[client].frames, frame{kind: aReply, zxid: s.zxid, op: o})
	return o
}

// change does a write, and tells of it.
func (s *tale) change(client int, o *op) *op {
	s.zxid++
	for _, p := range o.parts() {
		s.tags++
		p.data = fmt.Sprintf("t.%d", s.tags)
		n := s.nodes[p.path]
		if p.create() {
			n = &told{stat: jute.Stat{Czxid: s.zxid, Version: -1}}
			s.nodes[p.path], p.made = n, p.path
			if p.mode.Ephemeral() {
				n.stat.EphemeralOwner = s.logs[client].session
			}
		}
		n.data = p.data
		n.stat.Version++
		n.stat.Mzxid = s.zxid
		p.stat, p.state = n.stat, done
	}
	return s.op(client, o)
}

func (s *tale) set(client int, path string) *op {
	return s.change(client, &op{code: jute.OpSetData, path: path, version: s.nodes[path].stat.Version})
}

func (s *tale) get(client int, path string) *op {
	o := &op{code: jute.OpGetData, path: path, got: s.nodes[path].data, stat: s.nodes[path].stat}
	return s.op(client, o)
}

// synced is a read after a sync.
func (s *tale) synced(client int, path string) *op {
	sync := s.op(client, &op{code: jute.OpSync, path: path})
	o := s.get(client, path)
	o.sync = sync
	return o
}

func (s *tale) event(client int, e jute.EventType, path string) {
	s.logs[client].frames = append(s.logs[client].frames, frame{kind: anEvent, zxid: s.zxid, event: e, path: path})
}

// end reads everything.
func (s *tale) end() {
	for p, n := range s.nodes {
		s.reads = append(s.reads, &op{client: -1, code: jute.OpGetData, path: p, got: n.data, stat: n.stat, zxid: s.zxid, state: done})
	}
}

// verdict runs all checkers.
func (s *tale) verdict() (f findings) {
	l := newLedger(s.h, s.reads)
	f = l.check()
	l.found = nil
	w := &world{nodes: make(map[string]process.Node)}
	for _, o := range s.reads {
		l.checkRead(o)
		w.nodes[o.path] = process.Node{Data: o.got, Stat: o.stat, Reply: o.zxid}
	}
	linear, _ := checkLinearizable(s.h)
	for _, more := range []findings{l.found, checkOrder(s.h), checkWatches(l), checkPresence(l, w), checkExpiry(s.h, 0), linear} {
		f = append(f, more...)
	}
	return f
}

// plain is a tale with a bit of everything.
func plain() *tale {
	s := newTale()
	s.set(0, "/t/k0")
	s.set(1, "/t/k0")
	s.get(0, "/t/k0")
	s.get(1, "/t/k1").watch = true
	s.event(1, jute.EventDataChanged, "/t/k1")
	s.logs[1].frames[len(s.logs[1].frames)-1].zxid = 0
	s.set(0, "/t/k1")
	s.change(0, &op{code: jute.OpMulti, subs: []*op{{code: jute.OpSetData, path: "/t/k2", version: -1}, {code: jute.OpSetData, path: "/t/k3", version: -1}}})
	s.change(0, &op{code: jute.OpCreate2, path: "/t/eph/a", mode: jute.ModeEphemeral})
	s.synced(1, "/t/k2")
	s.synced(1, "/t/k0")
	return s
}

// TestPlanted checks that the checkers find nothing in what is right, and what was
// planted in what is not.
func TestPlanted(t *testing.T) {
	tests := []struct {
		name string
		tale func() *tale
		want string // part of a finding; "" for none
	}{
		{"all is well", plain, ""},
		{"stale read", func() *tale {
			s := plain()
			o := s.get(0, "/t/k0")
			o.got, o.stat = "t.1", s.h.ops[0].stat
			return s
		}, "stale"},
		{"late read, as it may be", func() *tale {
			s := plain()
			o := s.get(1, "/t/k0")
			s.set(0, "/t/k0")
			s.h.ops[len(s.h.ops)-1], s.h.ops[len(s.h.ops)-2] = o, s.h.ops[len(s.h.ops)-1]
			o.call, o.ret = o.call+20, o.ret+20
			return s
		}, ""},
		{"late read after a sync", func() *tale {
			s := plain()
			before := s.get(1, "/t/k0")
			s.set(0, "/t/k0")
			o := s.synced(1, "/t/k0")
			o.got, o.stat, o.zxid = before.got, before.stat, before.zxid
			return s
		}, "after a sync is late"},
		{"late read after a sync, for Porcupine", func() *tale {
			s := plain()
			before := s.get(1, "/t/k0")
			s.set(0, "/t/k0")
			o := s.synced(1, "/t/k0")
			o.got, o.stat = before.got, before.stat
			return s
		}, "Porcupine finds no order"},
		{"lost write", func() *tale {
			s := plain()
			n := *s.nodes["/t/k0"]
			s.set(0, "/t/k0")
			*s.nodes["/t/k0"] = n
			s.set(1, "/t/k0")
			return s
		}, "has version"},
		{"lost last write", func() *tale {
			s := plain()
			n := *s.nodes["/t/k0"]
			s.set(0, "/t/k0")
			*s.nodes["/t/k0"] = n
			return s
		}, "stale"},
		{"lost node", func() *tale {
			s := plain()
			s.change(0, &op{code: jute.OpCreate2, path: "/t/x0"})
			delete(s.nodes, "/t/x0")
			return s
		}, "is lost"},
		{"done twice", func() *tale {
			s := plain()
			data := s.nodes["/t/k0"].data
			s.set(0, "/t/k0").state = unknown
			s.h.ops[len(s.h.ops)-1].zxid = 0
			s.nodes["/t/k0"].data = data
			return s
		}, "read as of"},
		{"half a multi", func() *tale {
			s := plain()
			n := *s.nodes["/t/k3"]
			o := s.change(0, &op{code: jute.OpMulti, subs: []*op{{code: jute.OpSetData, path: "/t/k2", version: -1}, {code: jute.OpSetData, path: "/t/k3", version: -1}}})
			o.state, o.zxid, o.ret = unknown, 0, forever
			s.logs[0].frames = s.logs[0].frames[:len(s.logs[0].frames)-1]
			*s.nodes["/t/k3"] = n
			return s
		}, "stale"},
		{"refused, and there", func() *tale {
			s := plain()
			o := s.set(0, "/t/k0")
			o.state, o.err = refused, jute.ErrBadVersion
			return s
		}, "a refused write is there"},
		{"refused for nothing", func() *tale {
			s := plain()
			s.zxid++
			o := s.op(0, &op{code: jute.OpSetData, path: "/t/k0", data: "t.x", version: s.nodes["/t/k0"].stat.Version})
			o.state, o.err = refused, jute.ErrBadVersion
			return s
		}, "although the version is right"},
		{"zxid of two", func() *tale {
			s := plain()
			s.set(0, "/t/k0")
			s.zxid--
			s.set(1, "/t/k1")
			return s
		}, "that of two writes"},
		{"against real time", func() *tale {
			s := plain()
			a, b := s.set(0, "/t/k0"), s.set(1, "/t/k1")
			a.call, a.ret, b.call, b.ret = b.call, b.ret, a.call, a.ret
			return s
		}, "later write has the smaller zxid"},
		{"session out of order", func() *tale {
			s := plain()
			o := s.op(0, &op{code: jute.OpSetData, path: "/t/k5", data: "late", version: 0})
			o.state, o.zxid, o.ret = unknown, 0, forever
			s.logs[0].frames = s.logs[0].frames[:len(s.logs[0].frames)-1]
			s.set(0, "/t/k6")
			s.zxid++
			s.nodes["/t/k5"] = &told{"late", jute.Stat{Czxid: 50, Mzxid: s.zxid, Version: 1}}
			return s
		}, "writes of a session are out of order"},
		{"back in time", func() *tale {
			s := plain()
			frames := s.logs[1].frames
			frames[len(frames)-2].zxid -= 3
			return s
		}, "after"},
		{"event too late", func() *tale {
			s := plain()
			s.get(1, "/t/k0").watch = true
			s.set(0, "/t/k0")
			s.get(1, "/t/k4")
			s.event(1, jute.EventDataChanged, "/t/k0")
			return s
		}, "came before the event"},
		{"event left out", func() *tale {
			s := plain()
			s.get(1, "/t/k0").watch = true
			s.set(0, "/t/k0")
			s.get(1, "/t/k4")
			return s
		}, "came before the event"},
		{"event for nothing", func() *tale {
			s := plain()
			s.get(1, "/t/k0").watch = true
			s.event(1, jute.EventDataChanged, "/t/k0")
			return s
		}, "without a change"},
		{"event unasked", func() *tale {
			s := plain()
			s.set(1, "/t/k0")
			s.event(1, jute.EventDataChanged, "/t/k0")
			return s
		}, "not watched"},
		{"left out between connections", func() *tale {
			s := plain()
			since := s.zxid
			s.set(0, "/t/k0")
			log := &connLog{client: 1, server: 1, session: 2, seen: since}
			log.frames = []frame{{kind: aRegistration, zxid: s.zxid, taken: []watch{{onData, "/t/k0", since}}}}
			s.h.logs = append(s.h.logs, log)
			return s
		}, "does not tell of the change"},
		{"expired early", func() *tale {
			s := plain()
			s.h.lives[2].written, s.h.lives[2].touched, s.h.lives[2].expired = 500, 500, 1400
			s.h.shortage = shortage{-10, -5, true}
			return s
		}, "too early"},
		{"write after the end of the session", func() *tale {
			s := plain()
			s.h.lives[1].closed, s.h.lives[1].closing = s.zxid, true
			delete(s.nodes, "/t/eph/a")
			s.set(0, "/t/k0")
			return s
		}, "after the end of its session"},
		{"ephemeral without session", func() *tale {
			s := plain()
			s.h.lives[1].expired = int64(time.Hour)
			return s
		}, "has ended"},
		{"ephemeral gone, session alive", func() *tale {
			s := plain()
			delete(s.nodes, "/t/eph/a")
			return s
		}, "is lost"},
		{"ephemeral deleted without an answer, then the end of its session", func() *tale {
			s := plain()
			o := s.op(0, &op{code: jute.OpDelete, path: "/t/eph/a", version: -1})
			o.state, o.zxid, o.ret = unknown, 0, forever
			s.logs[0].frames = s.logs[0].frames[:len(s.logs[0].frames)-1]
			delete(s.nodes, "/t/eph/a")
			absent := s.op(1, &op{code: jute.OpExists, path: "/t/eph/a", watch: true})
			absent.state, absent.err = refused, jute.ErrNoNode
			s.zxid++
			s.h.lives[1].closed, s.h.lives[1].closing = s.zxid, true
			s.get(1, "/t/k4")
			return s
		}, ""},
		{"two with the lock", func() *tale {
			s := plain()
			s.change(0, &op{code: jute.OpCreate2, path: "/t/lock", mode: jute.ModeEphemeral})
			s.set(1, "/t/fenced")
			return s
		}, "had the lock"},
		{"number used again", func() *tale {
			s := plain()
			for _, name := range []string{"/t/seq/n0000000002", "/t/seq/n0000000001"} {
				s.change(0, &op{code: jute.OpCreate2, path: name})
			}
			return s
		}, "sequence number"},
	}
	for _, tt := range tests {
		s := tt.tale()
		s.end()
		got := strings.Join(s.verdict(), "\n")
		switch {
		case tt.want == "" && got != "":
			t.Errorf("%s: found %s", tt.name, got)
		case !strings.Contains(got, tt.want):
			t.Errorf("%s: found %q, want a finding with %q", tt.name, got, tt.want)
		}
	}
}
