//go:build compat

package compat

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/ask"
)

// ensembleScenarios lists the scenarios that need three servers. Those at the
// end stop some of them.
func ensembleScenarios() []scenario {
	return slices.Concat(placeScenarios(), moveScenarios(), lossScenarios())
}

// onEach opens a session on each server.
func (w *world) onEach() (l, f, o *conn) {
	return w.on(leader).connect("L"), w.on(follower).connect("F"), w.on(otherFollower).connect("O")
}

// places gives one name to the ports of each kind.
var places = regexp.MustCompile(`127\.0\.0\.1:\d+(:\d+)?`)

func placeScenarios() []scenario {
	return []scenario{
		{name: "ensemble: written anywhere, read everywhere", run: func(w *world) {
			l, f, o := w.onEach()
			f.do(create("/w", "f", 0), create("/w/s-", "", 2), get("/w"))
			l.do(create("/w/s-", "", 2), get("/w"))
			o.do(create("/w/s-", "", 2), set("/w", "o"), create("/w", "again", 0), set("/none", ""))
			f.do(multi(set("/w", "m"), check("/w/s-0000000000", 0), create("/w/m", "", 0)), multi(set("/w", "n"), check("/none", 0)))
			l.do(multi(del("/w/m", 0), create("/w/m", "", 2)), setACL("/w/m0000000004", openACL, 0))
			o.do(createContainer("/w/box"), createTTL("/w/ttl", 5, 1e9), create("/w/e", "", 1))
			for _, c := range []*conn{l, f, o} {
				c.tree("/w")
				c.do(byPath(opGetAllChildrenNumber, "/w"), byPath(opGetEphemerals, "/"), whoAmI())
			}
		}},
		{name: "ensemble: pipelines through a follower", run: func(w *world) {
			_, f, o := w.onEach()
			f.do(create("/p", "0", 0), get("/p"), set("/p", "1"), exists("/p"), getW("/p"), set("/p", "2"), get("/p"),
				byPath(opSync, "/p"), ping(), create("/p/x", "", 0), children("/p"), del("/p/x", -1), children("/p"), del("/none", -1), exists("/none"))
			f.do(multi(set("/p", "3"), set("/p", "4")), get("/p"), multiOf(opMultiRead, get("/p"), get("/none")), set("/p", "5"), get("/p"))
			o.do(get("/p"), set("/p", "6"), get("/p"))
			f.do(get("/p"))
		}},
		{name: "ensemble: ids of sessions", run: func(w *world) {
			for role, c := range []*conn{w.on(leader).connect("L"), w.on(follower).connect("F"), w.on(otherFollower).connect("O")} {
				sid := slices.Index(w.ens.servers, w.roles[role]) + 1
				w.logf("%s: its id is the top byte: %v", c.name, c.session != nil && c.session.id>>56 == int64(sid))
			}
		}},
		{name: "ensemble: time-outs", run: func(w *world) {
			for role := range roleNames {
				for _, ms := range []int32{0, 1500, 1_000_000, -1} {
					c := w.on(role).connectWith("A", connectRequest{timeout: ms, passwd: make([]byte, 16), readOnly: &no})
					c.do(closeSession())
				}
			}
		}},
		{name: "ensemble: events on other servers", run: func(w *world) {
			l, f, o := w.onEach()
			for _, c := range []*conn{l, f} {
				c.do(getW("/"), existsW("/ev"), childrenW("/"))
			}
			o.do(addWatch("/", 1))
			w.unsorted = true
			f.do(create("/ev", "", 0))
			for _, c := range []*conn{l, f} {
				c.do(getW("/ev"), childrenW("/ev"))
			}
			o.do(set("/ev", "x"), create("/ev/k", "", 1))
			o.do(closeSession())
			l.do(del("/ev", -1), set("/", "y"))
			l.do(set("/", ""))
		}},
		{name: "ensemble: ephemerals end with their session", run: func(w *world) {
			l, f, o := w.onEach()
			f.do(create("/eph", "", 1), create("/eph2", "", 1))
			l.do(existsW("/eph"), byPath(opGetEphemerals, "/"))
			o.do(existsW("/eph"), existsW("/eph2"))
			w.unsorted = true
			f.do(closeSession())
			l.do(exists("/eph"))
			o.do(exists("/eph2"))
			for role := range roleNames {
				w.on(role).connectWith("X", resume(f.session, timeout))
			}
		}},
		{name: "ensemble: expiry is told everywhere", run: func(w *world) {
			l, _, o := w.onEach()
			a := w.on(follower).connectWith("A", connectRequest{timeout: 1000, passwd: make([]byte, 16), readOnly: &no})
			a.do(create("/exp", "", 1))
			l.do(existsW("/exp"))
			o.do(existsW("/exp"))
			a.close()
			w.until("expired", 20*time.Second, func() bool { return !l.present("/exp") && !o.present("/exp") })
			w.barrier()
			for role := range roleNames {
				w.on(role).connectWith("X", resume(a.session, 1000))
			}
		}},
		{name: "ensemble: expiry while connected to a follower", run: func(w *world) {
			l, _, _ := w.onEach()
			a := w.on(follower).connectWith("A", connectRequest{timeout: 1000, passwd: make([]byte, 16), readOnly: &no})
			a.do(create("/mute", "", 1))
			w.conns = slices.DeleteFunc(w.conns, func(c *conn) bool { return c == a }) // nobody pings for it
			w.until("expired", 20*time.Second, func() bool { return !l.present("/mute") })
			a.expectEnd()
		}},
		{name: "ensemble: pings at a follower keep a session", run: func(w *world) {
			l, _, _ := w.onEach()
			a := w.on(follower).connectWith("A", connectRequest{timeout: 1000, passwd: make([]byte, 16), readOnly: &no})
			a.do(create("/kept", "", 1))
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			for range 15 {
				w.hushed(func() { a.lastZxid() })
				<-tick.C
			}
			l.do(exists("/kept"))
			a.do(exists("/kept"))
		}},
		{name: "ensemble: sync", run: func(w *world) {
			l, f, o := w.onEach()
			for _, c := range []*conn{l, f, o} {
				c.do(byPath(opSync, "/"), byPath(opSync, "/none"), set("/", c.name), byPath(opSync, "/"), get("/"))
				c.do(byPath(opSync, ""), byPath(opSync, "bad"), get("/"))
			}
			l.do(set("/", ""))
		}},
		{name: "ensemble: refused", run: func(w *world) {
			for role := range roleNames {
				w.on(role)
				w.logf("%s: zxid ahead", roleNames[role])
				w.connectWith("A", connectRequest{lastZxid: math.MaxInt64, timeout: 10000, passwd: make([]byte, 16), readOnly: &no})
				w.connectWith("B", connectRequest{lastZxid: w.probes[role].zxid, timeout: 10000, passwd: make([]byte, 16), readOnly: &no})
				w.logf("%s: unknown session", roleNames[role])
				w.connectWith("C", connectRequest{timeout: 10000, session: 0x1234, passwd: make([]byte, 16), readOnly: &no})
			}
			a := w.on(follower).connect("D")
			for role := range roleNames {
				w.logf("%s: wrong password", roleNames[role])
				if role == follower {
					continue // "session: wrong password while connected" has that
				}
				w.on(role).connectWith("E", connectRequest{timeout: 10000, session: idOf(a), passwd: []byte("0123456789abcdef"), readOnly: &no})
				a.do(exists("/zookeeper"))
			}
		}},
		{name: "ensemble: the configuration", run: func(w *world) {
			w.loose = true
			for _, c := range []*conn{w.on(leader).connect("L"), w.on(follower).connect("F")} {
				for line := range strings.Lines(string(c.data("/zookeeper/config"))) {
					line = places.ReplaceAllStringFunc(strings.TrimSpace(line), func(s string) string {
						return "HOST" + strings.Repeat(":PORT", strings.Count(s, ":"))
					})
					w.logf("%s| %s", c.name, epochVersion.ReplaceAllString(line, "version=EPOCH"))
				}
				c.do(byPath(opGetACL, "/zookeeper/config"))
				c.do(set("/zookeeper/config", "x"), del("/zookeeper/config", -1))
				c.do(raw(opReconfig, "none", enc(nil).str("").str("").str("").i64(-1)))
				c.do(auth("digest", "super:secret"))
				c.do(raw(opReconfig, "none, super", enc(nil).str("").str("").str("").i64(-1)))
			}
		}},
		{name: "ensemble: hash", run: func(w *world) {
			c := w.connect("L")
			var batch []request
			for range 150 {
				batch = append(batch, set("/zookeeper/quota", ""))
			}
			c.do(batch...)
			for role, name := range roleNames {
				text, err := ask.Within(wordTimeout, w.on(role).addr, "hash")
				recent, begins := 0, 0
				for line := range strings.Lines(text) {
					var zxid int64
					if _, scanErr := fmt.Sscanf(line, "%x:", &zxid); scanErr != nil || zxid%128 != 0 {
						w.logf("%s: %q: %v", name, line, scanErr)
					}
					if zxid > w.base {
						recent++
					}
					if zxid&0xffffffff == 0 {
						begins++
					}
				}
				w.logf("%s: %v, any of this scenario %v, of an epoch's beginning %d", name, err, recent > 0, begins)
			}
			c.do(set("/zookeeper/quota", ""))
		}},
		{name: "ensemble: words", run: func(w *world) {
			l, f, o := w.onEach()
			f.do(create("/words", "", 0), create("/words/e", "", 1), getW("/words"))
			o.do(existsW("/words/e"))
			l.do(childrenW("/words"), getW("/words"))
			w.figures = ensembleFigures
			for role, name := range roleNames {
				w.on(role)
				for _, word := range allWords {
					w.logf("%s:", name)
					w.word(word, "")
				}
			}
		}},
	}
}

// ensembleFigures are the lines of mntr that belong to the roles. The others are
// compared on one server.
var ensembleFigures = regexp.MustCompile(`^zk_(version|server_state|peer_state|\w*followers|\w*learners|\w*observers|leader_uptime|quorum_size|` +
	`pending_syncs|\w*_proposal_size|proposal_count|global_sessions|local_sessions|ephemerals_count|znode_count|watch_count)\t`)

// moveScenarios take sessions from server to server.
func moveScenarios() []scenario {
	list := []scenario{
		{name: "ensemble: moved with everything", run: func(w *world) {
			l, _, _ := w.onEach()
			a := w.on(follower).connect("A")
			a.do(auth("digest", "bob:pw"))
			a.do(create("/mv", "x", 1), createACL(opCreate, "/bob", nil, []acl{{31, "auth", ""}}, 0), getW("/mv"), existsW("/mv2"))
			a.close()
			l.do(set("/mv", "y"))
			b := w.on(otherFollower).connectWith("B", resume(a.session, timeout))
			b.do(get("/mv"), byPath(opGetEphemerals, "/"), get("/bob"), whoAmI())
			b.do(setWatches(a.zxid, "as of A", []string{"/mv", "/bob"}, []string{"/mv2"}, []string{"/"}))
			b.do(auth("digest", "bob:pw"))
			b.do(get("/bob"), set("/mv", "z"))
			l.do(create("/mv2", "", 0))
			c := w.on(leader).connectWith("C", resume(a.session, timeout))
			b.close()
			c.do(get("/mv"), set("/mv", "c"), closeSession())
			for role := range roleNames {
				w.on(role).connectWith("X", resume(a.session, timeout))
			}
			l.do(exists("/mv"))
		}},
		{name: "ensemble: watches over a move", run: func(w *world) {
			l, _, _ := w.onEach()
			l.do(create("/wm", "", 0), create("/wm/a", "", 0), create("/wm/b", "", 0))
			a := w.on(follower).connect("A")
			a.do(getW("/wm"), childrenW("/wm"), getW("/wm/a"), getW("/wm/b"), existsW("/wm/new"), existsW("/wm/never"))
			a.close()
			l.do(set("/wm/a", "1"), del("/wm/b", -1), create("/wm/new", "", 0))
			b := w.on(otherFollower).connectWith("B", resume(a.session, timeout))
			w.unsorted = true
			b.do(setWatches(a.zxid, "as of A", []string{"/wm", "/wm/a", "/wm/b"}, []string{"/wm/new", "/wm/never"}, []string{"/wm"}))
			w.unsorted = false
			l.do(set("/wm", "1"), set("/wm/a", "2"), create("/wm/never", "", 0))
			b.do(setWatches(b.zxid, "as of B", nil, nil, nil, []string{"/wm"}, []string{"/wm"}))
			l.do(set("/wm/a", "3"))
		}},
	}
	for _, m := range []struct{ from, to int }{{follower, otherFollower}, {leader, follower}, {follower, leader}} {
		for what, late := range lateRequests {
			list = append(list, scenario{
				name: fmt.Sprintf("ensemble: moved from %s to %s, then the old connection: %s", roleNames[m.from], roleNames[m.to], what),
				run:  func(w *world) { movedAway(w, m.from, m.to, late) },
			})
		}
	}
	slices.SortStableFunc(list[2:], func(a, b scenario) int { return strings.Compare(a.name, b.name) })
	return list
}

// lateRequests are what the old connection of a session still asks for.
var lateRequests = map[string][]request{
	"ping":         {ping()},
	"read":         {get("/mv")},
	"write":        {set("/mv", "late")},
	"multi":        {multi(set("/mv", "late"), check("/mv", -1))},
	"sync":         {byPath(opSync, "/mv")},
	"closeSession": {closeSession()},
}

// movedAway resumes a session elsewhere while its old connection is still open,
// and then uses that.
func movedAway(w *world, from, to int, late []request) {
	w.patience = 3 * time.Second
	l := w.on(leader).connect("L")
	l.do(create("/mv", "", 0))
	a := w.on(from).connect("A")
	a.do(create("/mv/e", "", 1))
	w.conns = slices.DeleteFunc(w.conns, func(c *conn) bool { return c == a }) // barriers would use it
	defer a.close()
	b := w.on(to).connectWith("B", resume(a.session, timeout))
	b.do(set("/mv", "moved"), getW("/mv"))
	a.send(late...)
	a.drain()
	w.barrier()
	b.do(get("/mv"), exists("/mv/e"))
	l.do(get("/mv"), exists("/mv/e"))
}

// data returns the data of a node without a trace in the transcript.
func (c *conn) data(path string) []byte {
	c.write(frame(enc(nil).i32(7777777).i32(opGetData).raw(get(path).body...)))
	for {
		payload, err := c.readFrame()
		if err != nil {
			return nil
		}
		d := dec{b: payload}
		if d.i32() == 7777777 {
			d.take(12)
			return d.buf()
		}
	}
}

// lossScenarios stop servers. How many transactions an election costs is each
// system's own affair.
func lossScenarios() []scenario {
	return []scenario{
		{name: "ensemble: a follower is lost", run: func(w *world) {
			w.loose = true
			l, f, o := w.onEach()
			f.do(create("/lost", "", 0), create("/lost/e", "", 1))
			o.do(getW("/lost"))
			w.roles[follower].kill()
			f.expectEnd()
			o.do(exists("/lost/e"))
			l.do(set("/lost", "x"))
			g := w.on(otherFollower).connectWith("G", resume(f.session, 30000))
			g.do(exists("/lost/e"), set("/lost", "y"), setWatches(f.zxid, "as of F", []string{"/lost"}, []string{}, []string{}))
			w.start(follower)
			w.reprobe()
			h := w.on(follower).connectWith("H", resume(f.session, 30000))
			g.close()
			h.do(exists("/lost/e"), get("/lost"), set("/lost", "z"))
			h.tree("/lost")
		}},
		{name: "ensemble: the leader is lost", run: leaderLost},
		{name: "ensemble: the quorum is lost", run: func(w *world) {
			w.loose = true
			l, f, o := w.onEach()
			f.do(create("/q", "", 0), create("/q/e", "", 1))
			l.do(create("/q/l", "", 1))
			w.roles[follower].kill()
			w.roles[otherFollower].kill()
			for _, c := range []*conn{l, f, o} {
				c.expectEnd()
			}
			w.until("the leader serves no more", 20*time.Second, func() bool { return w.roles[leader].mode() == "" })
			w.on(leader)
			for _, word := range []string{"ruok", "srvr", "stat", "isro", "mntr", "cons", "dump", "conf", "wchs", "dirs", "crst", "hash", "gtmk"} {
				w.word(word, "")
			}
			w.connect("N")
			w.connectWith("R", connectRequest{timeout: 10000, passwd: make([]byte, 16), readOnly: &yes})
			w.connectWith("S", resume(l.session, timeout))
			w.start(otherFollower)
			w.reprobe()
			m := w.on(otherFollower).connectWith("M", resume(l.session, timeout))
			m.do(exists("/q/e"), exists("/q/l"), set("/q", "again"))
			w.start(follower)
			w.reprobe()
			g := w.on(follower).connectWith("G", resume(f.session, timeout))
			g.do(exists("/q/e"), get("/q"))
			g.tree("/q")
		}},
		{name: "ensemble: all are lost", run: func(w *world) {
			w.loose = true
			_, f, o := w.onEach()
			f.do(create("/all", "", 0), create("/all/s-", "", 2), create("/all/e", "", 1), del("/all/s-0000000000", -1))
			o.do(set("/all", "o"), closeSession())
			for _, s := range w.roles {
				s.kill()
			}
			f.expectEnd()
			for _, s := range w.roles {
				if err := s.launch(); err != nil {
					w.logf("%v", err)
				}
			}
			for role := range roleNames {
				w.awaitMode(role, "leader", "follower")
			}
			w.reprobe()
			g := w.on(leader).connectWith("G", resume(f.session, timeout))
			g.do(create("/all/s-", "", 2), byPath(opGetEphemerals, "/"))
			w.on(otherFollower).connectWith("X", resume(o.session, timeout))
			for role := range roleNames {
				w.on(role).connect("T").tree("/all")
			}
		}},
	}
}

// start starts a server that was killed and waits for it to serve.
func (w *world) start(role int) {
	if err := w.roles[role].launch(); err != nil {
		w.logf("start %s: %v", roleNames[role], err)
		return
	}
	w.awaitMode(role, "leader", "follower")
	// The one that waited for it may need a moment longer.
	for other, s := range w.roles {
		select {
		case <-s.exited:
		default:
			w.awaitMode(other, "leader", "follower")
		}
	}
}

// leaderLost kills the leader: all connections end, writes go on, and sessions
// are alive with their ephemerals wherever they come back.
func leaderLost(w *world) {
	w.loose = true
	l, f, o := w.onEach()
	l.do(create("/ll", "", 0), create("/ll/l", "", 1))
	f.do(create("/ll/f", "", 1))
	o.do(getW("/ll"), existsW("/ll/f"), existsW("/ll/l"), childrenW("/ll"))
	w.roles[leader].kill()
	for _, c := range []*conn{l, f, o} {
		c.expectEnd()
	}
	w.awaitMode(follower, "leader", "follower")
	w.awaitMode(otherFollower, "leader", "follower")
	w.reprobe()
	p := w.on(otherFollower).connectWith("P", resume(o.session, 30000))
	p.do(setWatches(o.zxid, "as of O", []string{"/ll"}, []string{"/ll/f", "/ll/l"}, []string{"/ll"}))
	g := w.on(follower).connectWith("G", resume(f.session, 30000))
	g.do(exists("/ll/f"), exists("/ll/l"), byPath(opGetEphemerals, "/"), set("/ll", "g"))
	m := w.on(follower).connectWith("M", resume(l.session, 30000))
	m.do(byPath(opGetEphemerals, "/"), closeSession())
	g.do(closeSession())
	w.start(leader)
	w.reprobe()
	q := w.on(leader).connectWith("Q", resume(o.session, 30000))
	p.close()
	q.do(set("/ll", "q"))
	q.tree("/ll")
}

// readOnlyScenarios need servers with read-only mode and local sessions.
func readOnlyScenarios() []scenario {
	return []scenario{
		{name: "read-only: without a quorum", run: func(w *world) {
			w.loose = true
			l, f, o := w.onEach()
			l.do(create("/ro", "data", 0), create("/ro/k", "", 0))
			w.roles[leader].kill()
			w.roles[otherFollower].kill()
			for _, c := range []*conn{l, f, o} {
				c.expectEnd()
			}
			w.awaitMode(follower, "read-only")
			w.on(follower)
			for _, word := range []string{"ruok", "isro", "srvr", "stat", "conf"} {
				w.word(word, "")
			}
			w.connect("N")
			r := w.connectWith("R", connectRequest{timeout: 10000, passwd: make([]byte, 16), readOnly: &yes})
			r.do(get("/ro"), childrenW("/ro"), existsW("/none"), getW("/none"), addWatch("/ro", 1), ping(), whoAmI())
			r.do(auth("digest", "bob:pw"))
			r.do(byPath(opGetACL, "/ro"), byPath(opGetAllChildrenNumber, "/"), multiOf(opMultiRead, get("/ro"), children("/ro")))
			for _, req := range []request{
				set("/ro", "x"), create("/no", "", 0), create2("/no", "", 0), createContainer("/no"), del("/ro", -1), setACL("/ro", openACL, -1),
				multi(set("/ro", "x")), byPath(opSync, "/ro"), create("/no", "", 1), raw(opReconfig, "none", enc(nil).str("").str("").str("").i64(-1)),
			} {
				r.each(req)
			}
			s := w.connectWith("S", connectRequest{timeout: 10000, passwd: make([]byte, 16), readOnly: &yes})
			s.do(get("/ro"), closeSession())
			w.connectWith("X", connectRequest{timeout: 10000, session: 0x1234, passwd: make([]byte, 16), readOnly: &yes})
			w.start(otherFollower)
			r.expectEnd()
			w.word("isro", "")
			a := w.connectWith("A", connectRequest{timeout: 10000, passwd: make([]byte, 16), readOnly: &yes})
			a.do(set("/ro", "writes again"), get("/ro"))
		}},
	}
}
