package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

const apacheAuth = "org.apache.zookeeper.server.auth."

// addAuth sends an auth packet and returns the code of its reply.
func (c *client) addAuth(scheme, data string) jute.Code {
	c.t.Helper()
	c.sendFrame(requestFrame(jute.XidAuth, jute.OpAuth, &jute.AuthRequest{Scheme: scheme, Auth: []byte(data)}))
	return c.await(jute.XidAuth).Err
}

// TestEnsembleName checks that the scheme disconnects a client that looks for another
// ensemble, without an answer, and gives nobody an identity.
func TestEnsembleName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "authProvider.1="+apacheAuth+"EnsembleAuthenticationProvider", "ensembleAuthName=blue, green")
		c := s.connect(t)
		for _, name := range []string{"green", "blue", ""} {
			if code := c.addAuth("ensemble", name); code != 0 {
				t.Errorf("ensemble %q: %v", name, code)
			}
		}
		acl := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "ensemble", ID: "blue"}}}
		if r := c.call(jute.OpCreate, &jute.CreateRequest{Path: "/n", ACL: acl}); r.Err != jute.ErrInvalidACL {
			t.Errorf("an ACL with scheme ensemble: %v", r.Err)
		}
		acl[0].ID = jute.ID{Scheme: "auth"}
		if r := c.call(jute.OpCreate, &jute.CreateRequest{Path: "/n", ACL: acl}); r.Err != jute.ErrInvalidACL {
			t.Errorf("an ACL with scheme auth: %v", r.Err)
		}
		c.sendFrame(requestFrame(jute.XidAuth, jute.OpAuth, &jute.AuthRequest{Scheme: "ensemble", Auth: []byte("red")}))
		c.eof("another ensemble's name")
		if again := c.resume(t, 10_000); again.session != c.session {
			t.Errorf("the session has gone")
		}
		s.noErrors(t)
	})
}

// TestEnsembleWithoutName checks that every name is accepted if none is configured.
func TestEnsembleWithoutName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "authProvider.1="+apacheAuth+"EnsembleAuthenticationProvider")
		if code := s.connect(t).addAuth("ensemble", "red"); code != 0 {
			t.Errorf("%v", code)
		}
	})
}

// TestSessionMovesWithoutIdentities moves sessions between the servers of an ensemble. Neither the
// server that answers reads nor the leader, which decides on writes, takes a client for whom it was
// on the connection before.
func TestSessionMovesWithoutIdentities(t *testing.T) {
	i := newIssuer(t)
	inBubble(t, 3, append(saslLines(t), i.lines...), func(t *testing.T, e *testEnsemble) {
		leader, follower := e.leader(), e.follower()
		other := 6 - leader - follower
		for _, way := range [][2]int{{follower, leader}, {leader, follower}, {follower, other}} {
			for scheme, prove := range map[string]func(c *client) jute.Code{
				"digest": func(c *client) jute.Code { return c.addAuth("digest", "ann:secret") },
				"super":  func(c *client) jute.Code { return c.login("admin", "topsecret").Err },
				"sasl":   func(c *client) jute.Code { return c.login("bob", "secret").Err },
				"jwt":    func(c *client) jute.Code { return c.addAuth("jwt", i.token("ann", time.Minute)) },
			} {
				old := e.servers[way[0]].connect(t)
				if code := prove(old); code != 0 {
					t.Fatalf("%s: %v", scheme, code)
				}
				path := fmt.Sprintf("/%s-%d-%d", scheme, way[0], way[1])
				old.ok(jute.OpCreate, owned(path, 0))
				old.set(path, "mine")

				c := old.resumeAt(t, e.servers[way[1]])
				if c.session != old.session {
					t.Fatalf("%s: session %v became %v", path, old.session, c.session)
				}
				if got := c.whoAmI(); got != "ip:10.0.0.2" {
					t.Errorf("%s: identities %s", path, got)
				}
				for op, body := range map[jute.OpCode]record{
					jute.OpGetData: get(path, false), jute.OpSetData: set(path, "taken"), jute.OpCreate: create(path+"/child", "", 0),
					jute.OpSetACL: &jute.SetACLRequest{Path: path, ACL: openACL, Version: -1},
				} {
					if r := c.call(op, body); r.Err != jute.ErrNoAuth {
						t.Errorf("%s: %v: %v", path, op, r.Err)
					}
				}
				if code := prove(c); code != 0 {
					t.Fatalf("%s, again: %v", scheme, code)
				}
				if data, _ := c.get(path); data != "mine" {
					t.Errorf("%s: data %q", path, data)
				}
			}
		}
	})
}
