package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// speaks logs a client in as the edge bob, and lets it speak for a user.
func (c *client) speaks(user string) jute.Code {
	c.t.Helper()
	if r := c.login("bob", "secret"); r.Err != 0 {
		c.t.Fatal(r.Err)
	}
	return c.addAuth(jute.SchemeEdge, user)
}

// TestEdgesSpeak has an edge speak for its clients, and for others.
func TestEdgesSpeak(t *testing.T) {
	fs := crashfs.New(1)
	lines := append(append(saslLines(t), audited...), "zkd.audit.reads=refused")
	synctest.Test(t, func(t *testing.T) {
		s := startOn(t, fs, "/data", append(lines, "zkd.edge.web=sasl:bob sasl:ann sasl:web-*")...)
		ann, eve, nobody, edge := s.connect(t), s.connect(t), s.connect(t), s.connect(t)
		for c, want := range map[*client]string{ann: "sasl:ann", eve: "sasl:web-1", nobody: ""} {
			if code := c.speaks(want); code != 0 {
				t.Fatalf("%s: %v", want, code)
			}
			if got, want := c.whoAmI(), strings.TrimSpace("ip:10.0.0.2 "+want); got != want {
				t.Errorf("identities %s, want %s", got, want)
			}
		}
		if edge.login("bob", "secret").Err != 0 {
			t.Fatal("the edge can't log in")
		}
		edge.ok(jute.OpCreate, owned("/bob", 0))
		ann.ok(jute.OpCreate, owned("/ann", 0))
		eve.ok(jute.OpCreate, owned("/eve", 0))
		if r := nobody.call(jute.OpCreate, owned("/none", 0)); r.Err != jute.ErrInvalidACL {
			t.Errorf("nobody owns a node: %v", r.Err)
		}
		for c, own := range map[*client]string{ann: "/ann", eve: "/eve", edge: "/bob", nobody: ""} {
			for _, path := range []string{"/ann", "/eve", "/bob"} {
				want := jute.Code(jute.ErrNoAuth)
				if path == own {
					want = 0
				}
				if r := c.call(jute.OpGetData, get(path, false)); r.Err != want {
					t.Errorf("the client of %q gets %s: %v", own, path, r.Err)
				}
				if r := c.call(jute.OpSetData, set(path, "x")); r.Err != want {
					t.Errorf("the client of %q sets %s: %v", own, path, r.Err)
				}
			}
		}
		if text := s.ask(t, "cons", false); !strings.Contains(text, ",user=sasl:ann,edge=sasl:bob)") || !strings.Contains(text, ",user=,edge=sasl:bob)") || strings.Count(text, "edge=") != 3 {
			t.Errorf("cons: %s", text)
		}

		for _, wrong := range []string{"sasl:admin", "sasl:bob", "sasl:other", "super:", "ip:10.0.0.9"} {
			c := s.connect(t)
			if code := c.speaks(wrong); code != jute.ErrAuthFailed {
				t.Errorf("it speaks for %s: %v", wrong, code)
			}
			c.eof("a refused edge")
		}
		if code := s.connect(t).addAuth(jute.SchemeEdge, "sasl:ann"); code != jute.ErrAuthFailed {
			t.Errorf("a client without a name speaks for ann: %v", code)
		}
		if code := ann.addAuth(jute.SchemeEdge, "sasl:web-1"); code != jute.ErrAuthFailed {
			t.Errorf("ann speaks for others: %v", code)
		}
		ann.eof("a client of an edge that speaks for others")

		text := strings.Join(auditLines(t, fs, nil), "\n")
		for _, want := range []string{
			"user=10.0.0.2,ann ip=10.0.0.2 edge=sasl:bob operation=addAuth scheme=edge value=sasl:ann result=success",
			"user=10.0.0.2,ann ip=10.0.0.2 edge=sasl:bob operation=create znode=/ann znode_type=persistent result=success",
			"user=10.0.0.2,ann ip=10.0.0.2 edge=sasl:bob operation=setData znode=/eve result=failure",
			"user=10.0.0.2,ann ip=10.0.0.2 edge=sasl:bob operation=getData znode=/eve result=failure",
			"user=10.0.0.2 ip=10.0.0.2 edge=sasl:bob operation=addAuth scheme=edge value=nobody result=success",
			"user=10.0.0.2 ip=10.0.0.2 edge=sasl:bob operation=setData znode=/ann result=failure",
			"user=10.0.0.2,bob ip=10.0.0.2 operation=create znode=/bob znode_type=persistent result=success",
			"user=10.0.0.2,bob ip=10.0.0.2 operation=addAuth scheme=edge value=sasl:admin result=failure",
			"user=10.0.0.2,ann ip=10.0.0.2 edge=sasl:bob operation=addAuth scheme=edge value=sasl:web-1 result=failure",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the audit log lacks %s:\n%s", want, text)
			}
		}
		s.noErrors(t)
	})
}

// TestEdgeLosesUsers takes a user away from an edge while a client is there, which waits for events.
func TestEdgeLosesUsers(t *testing.T) {
	lines := saslLines(t)
	synctest.Test(t, func(t *testing.T) {
		with := func(rule string) []string { return append([]string{"zkd.edge.web=" + rule}, lines...) }
		s := liveServer{testServer: startServer(t, with("sasl:bob sasl:ann sasl:eve")...), t: t, dir: "/data"}
		ann, eve, nobody := s.connect(t), s.connect(t), s.connect(t)
		for c, user := range map[*client]string{ann: "sasl:ann", eve: "sasl:eve", nobody: ""} {
			if code := c.speaks(user); code != 0 {
				t.Fatalf("%s: %v", user, code)
			}
		}
		ann.ok(jute.OpCreate, owned("/n", 0))
		ann.ok(jute.OpGetData, get("/n", true))
		time.Sleep(time.Second) // the connections are parked

		s.change(with("sasl:bob sasl:eve")...)
		ann.eof("the client of a user who was taken away")
		eve.ok(jute.OpCreate, owned("/eve", 0))
		if code := s.connect(t).speaks("sasl:ann"); code != jute.ErrAuthFailed {
			t.Errorf("it still speaks for ann: %v", code)
		}
		again := ann.resumeAt(t, s.testServer) // by the edge, which has the password of the session
		if code := again.speaks("sasl:eve"); code != 0 {
			t.Fatal(code)
		}
		if r := again.call(jute.OpGetData, get("/n", false)); r.Err != jute.ErrNoAuth {
			t.Errorf("a session that is resumed by another user has the rights of the first: %v", r.Err)
		}

		s.change(lines...)
		for _, c := range []*client{eve, nobody, again} {
			c.eof("a client of an edge that has no rule")
		}
		s.rejects("sasl:admin is a super user", "zkd.edge.web=sasl:bob sasl:admin", lines[0]) // of this server before it is restarted
		s.noErrors(t)
	})
}

// TestEdgeAtAnotherServer resumes a session of an edge's client at another server, which knows nothing of what the edge has said before.
func TestEdgeAtAnotherServer(t *testing.T) {
	inBubble(t, 3, append(saslLines(t), "zkd.edge.web=sasl:bob sasl:ann"), func(t *testing.T, e *testEnsemble) {
		leader, follower := e.leader(), e.follower()
		for i, way := range [][2]int{{follower, leader}, {leader, follower}} {
			c := e.servers[way[0]].connect(t)
			if code := c.speaks("sasl:ann"); code != 0 {
				t.Fatal(code)
			}
			path := []string{"/a", "/b"}[i]
			c.ok(jute.OpCreate, owned(path, 0))
			n := c.resumeAt(t, e.servers[way[1]])
			if r := n.call(jute.OpSetData, set(path, "x")); r.Err != jute.ErrNoAuth {
				t.Errorf("before the edge has spoken: %v", r.Err)
			}
			if code := n.speaks("sasl:ann"); code != 0 {
				t.Fatal(code)
			}
			n.set(path, "x")
		}
	})
}

// TestEdgeAndRequiredLogin requires a login of all clients. What an edge says is one, and nobody is not.
func TestEdgeAndRequiredLogin(t *testing.T) {
	lines := append(saslLines(t), "enforce.auth.enabled=true", "enforce.auth.schemes=sasl", "zkd.edge.web=sasl:bob sasl:ann")
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, lines...)
		ann, nobody := s.connect(t), s.connect(t)
		if a, b := ann.speaks("sasl:ann"), nobody.speaks(""); a != 0 || b != 0 {
			t.Fatal(a, b)
		}
		ann.create("/n", "")
		if r := nobody.call(jute.OpGetData, get("/n", false)); r.Err != jute.ErrSessionClosedRequireSASL {
			t.Errorf("nobody: %v", r.Err)
		}
	})
}
