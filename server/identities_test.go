package server

import (
	"testing"
	"testing/synctest"

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
