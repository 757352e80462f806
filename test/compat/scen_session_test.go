//go:build compat

package compat

import "time"

// resume is a connect request for a session that there was; for none, one of a
// session that never was.
func resume(s *session, timeout int32) connectRequest {
	if s == nil {
		s = &session{id: 1}
	}
	return connectRequest{timeout: timeout, session: s.id, passwd: s.passwd, readOnly: &no}
}

func sessionScenarios() []scenario {
	return []scenario{
		{name: "session: resumed", run: func(w *world) {
			w.countsAll = true
			a := w.connect("A")
			a.do(create("/res", "", 1), getW("/res"))
			a.close()
			b := w.connectWith("B", resume(a.session, 7000))
			b.do(get("/res"), byPath(opGetEphemerals, "/"), set("/res", "no watch any more"), closeSession())
			b.expectEnd()
			w.connectWith("C", resume(a.session, timeout))
			d := w.connect("D")
			d.do(exists("/res"))
		}},
		{name: "session: resumed while connected", run: func(w *world) {
			a := w.connect("A")
			b := w.connectWith("B", resume(a.session, timeout))
			a.expectEnd()
			b.do(exists("/zookeeper"))
			c := w.connectWith("C", resume(a.session, timeout))
			b.expectEnd()
			c.do(whoAmI())
		}},
		{name: "session: wrong password", run: func(w *world) {
			a := w.connect("A")
			a.do(create("/wrong", "", 1))
			a.close()
			for _, pw := range [][]byte{nil, {}, make([]byte, 16), []byte("0123456789abcdef"), append(append([]byte{}, passwdOf(a)...), 0), passwdOf(a)[:15]} {
				w.connectWith("B", connectRequest{timeout: 10000, session: idOf(a), passwd: pw, readOnly: &no})
			}
			w.connectWith("C", connectRequest{timeout: 10000, session: idOf(a) + 1, passwd: passwdOf(a), readOnly: &no})
			d := w.connectWith("D", resume(a.session, timeout))
			d.do(exists("/wrong"))
		}},
		{name: "session: wrong password while connected", run: func(w *world) {
			w.patience = silence
			a := w.connect("A")
			w.connectWith("B", connectRequest{timeout: 10000, session: idOf(a), passwd: []byte("0123456789abcdef"), readOnly: &no})
			a.send(exists("/none"))
			a.drain()
		}},
		{name: "session: nothing after close", run: func(w *world) {
			a, b := w.connect("A"), w.connect("B")
			// What is behind closeSession is dropped, or refused as of an expired
			// session: which of them depends on how far the close has got.
			w.hushed(func() {
				a.send(create("/after", "", 0), closeSession(), create("/after/x", "", 0))
				a.expectEnd()
			})
			w.logf("children: %q", b.list("/after"))
		}},
		{name: "session: expiry", own: &config{lines: []string{"tickTime=200"}}, run: func(w *world) {
			b := w.connect("B")
			w.unsorted = true
			a := w.connectWith("A", connectRequest{timeout: 400, passwd: make([]byte, 16), readOnly: &no})
			a.do(create("/x1", "", 1), create("/x2", "", 1))
			b.do(existsW("/x1"), existsW("/x2"))
			a.close()
			w.until("expired", 15*time.Second, func() bool { return !b.present("/x1") && !b.present("/x2") })
			w.barrier()
			w.connectWith("C", resume(a.session, 400))
		}},
		{name: "session: expiry while connected", own: &config{lines: []string{"tickTime=200"}}, run: func(w *world) {
			a := w.connectWith("A", connectRequest{timeout: 400, passwd: make([]byte, 16), readOnly: &no})
			a.expectEnd()
			w.connectWith("B", resume(a.session, 400))
		}},
		{name: "session: the server is killed and started again", own: &config{}, run: restart},
		{name: "session: negotiated limits", own: &config{lines: []string{"minSessionTimeout=5000", "maxSessionTimeout=6000"}}, run: func(w *world) {
			for _, ms := range []int32{0, 5500, 100000} {
				c := w.connectWith("A", connectRequest{timeout: ms, passwd: make([]byte, 16), readOnly: &no})
				c.do(closeSession())
			}
		}},
		{name: "session: connections per address", own: &config{lines: []string{"maxClientCnxns=3"}}, run: func(w *world) {
			for _, name := range []string{"A", "B", "C", "D"} {
				w.connect(name)
			}
		}},
	}
}

func idOf(c *conn) int64 { return resume(c.session, 0).session }

func passwdOf(c *conn) []byte { return append(resume(c.session, 0).passwd, make([]byte, 16)...)[:16] }

// restart kills the server after all kinds of writes: the whole tree, sessions
// and ephemerals must be there again, and sequence numbers go on.
func restart(w *world) {
	a, b := w.connect("A"), w.connect("B")
	a.do(auth("digest", "bob:pw"))
	mine := []acl{{31, "auth", ""}}
	a.do(create("/k", "x", 0), createACL(opCreate, "/k/mine", []byte("y"), mine, 0), create("/k/s-", "", 2), create("/k/s-", "", 2), create("/k/e", "", 1),
		createContainer("/k/box"), createTTL("/k/ttl", 5, 1e9), set("/k", "z"), setACL("/k", openACL, -1), del("/k/s-0000000001", -1), del("/none", -1), createACL(opCreate, "/k/null", nil, openACL, 0))
	a.do(multi(create("/k/m", "", 0), set("/k/m", "m"), create("/k/m/e", "", 1)), multi(create("/k/no", "", 0), check("/none", -1)))
	b.do(create("/k/b", "", 1), create("/zookeeper/quota/k", "", 0), create("/zookeeper/quota/k/zookeeper_limits", "count=100,bytes=1000", 0), create("/zookeeper/quota/k/zookeeper_stats", "count=0,bytes=0", 0))
	b.do(set("/k", "more data"), closeSession())
	w.srv.kill()
	a.expectEnd()
	if err := w.srv.run(); err != nil {
		w.logf("start again: %v", err)
		return
	}
	c := w.connectWith("C", resume(a.session, timeout))
	c.do(auth("digest", "bob:pw"))
	c.tree("/")
	c.do(byPath(opGetEphemerals, "/"), create("/k/s-", "", 2), set("/k/mine", "after"), closeSession())
	w.connectWith("D", resume(b.session, timeout))
	w.connect("E").do(children("/k"))
}
