//go:build compat

package compat

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
)

// saslServer starts an Apache server that knows bob, and renate, whose name and
// password are not ASCII.
func saslServer(t *testing.T, props map[string]string) *server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jaas.conf")
	const jaas = `Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_bob="secret"
  "user_renée"="pässwort"
  "user_Жук"="пароль"
  "user_a\"b\\c"="q\"r\\s";
};
`
	if err := os.WriteFile(file, []byte(jaas), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"java.security.auth.login.config": file,
		"zookeeper.authProvider.sasl":     "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
	}
	for k, v := range props {
		all[k] = v
	}
	return start(t, apache, config{props: all})
}

// dialClient connects, within a time that none of these tests should need.
func dialClient(t *testing.T, addr string, opts client.Options) (*client.Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	opts.Logger = client.NoLog
	c, err := client.Connect(ctx, addr, opts)
	if c != nil {
		t.Cleanup(func() { c.Close(context.Background()) }) //nolint:errcheck // the test is over
	}
	return c, err
}

// identities are what WhoAmI shows, as scheme:id.
func identities(t *testing.T, c *client.Client) []string {
	t.Helper()
	list, err := c.WhoAmI(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, id := range list {
		ids = append(ids, id.Scheme+":"+id.User)
	}
	return ids
}

func TestClientSASL(t *testing.T) {
	for name, props := range map[string]map[string]string{
		"plain":    nil,
		"required": {"zookeeper.sessionRequireClientSASLAuth": "true"},
		"enforced": {"zookeeper.enforce.auth.enabled": "true", "zookeeper.enforce.auth.schemes": "sasl"},
	} {
		t.Run(name, func(t *testing.T) { testSASL(t, saslServer(t, props)) })
	}
}

func testSASL(t *testing.T, srv *server) {
	for _, u := range []struct{ user, password string }{
		{"bob", "secret"}, {"renée", "pässwort"}, {"Жук", "пароль"}, {`a"b\c`, `q"r\s`},
	} {
		c, err := dialClient(t, srv.addr, client.Options{SASL: client.DigestMD5(u.user, u.password)})
		if err != nil {
			t.Errorf("%s: %v", u.user, err)
			continue
		}
		if ids := identities(t, c); !slices.Contains(ids, "sasl:"+u.user) {
			t.Errorf("%s is %q", u.user, ids)
		}
		path := "/" + u.user
		acl := []client.ACL{{Perms: client.PermAll, ID: client.ID{Scheme: "sasl", ID: u.user}}}
		if _, err := c.Create(t.Context(), path, nil, client.Persistent, acl); err != nil {
			t.Errorf("create %s: %v", path, err)
		}
		if _, _, err := c.Get(t.Context(), path); err != nil {
			t.Errorf("get %s, which belongs to the user: %v", path, err)
		}
	}
	for _, u := range []struct{ user, password string }{{"bob", "wrong"}, {"nobody", "wrong"}, {"bob", ""}} {
		_, err := dialClient(t, srv.addr, client.Options{SASL: client.DigestMD5(u.user, u.password)})
		if !errors.Is(err, client.ErrAuthFailed) || !strings.Contains(err.Error(), "check the user's name and password") {
			t.Errorf("user %q, password %q: %v; want ErrAuthFailed and what to check", u.user, u.password, err)
		}
	}
}

// TestClientSASLNone is about servers without SASL: an error, unless the client
// is told that this will do.
func TestClientSASLNone(t *testing.T) {
	for _, k := range []kind{apache, zkd} {
		t.Run(string(k), func(t *testing.T) {
			srv := start(t, k, config{})
			opts := client.Options{SASL: client.DigestMD5("bob", "secret")}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			opts.Logger = client.NoLog
			_, err := client.Connect(ctx, srv.addr, opts)
			if err == nil || errors.Is(err, client.ErrAuthFailed) || !strings.Contains(err.Error(), "the server has no SASL") {
				t.Errorf("connect: %v; want an error that tells that the server has no SASL", err)
			}
			opts.SASLOptional = true
			c, err := dialClient(t, srv.addr, opts)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.Get(t.Context(), "/"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestClientSASLIgnored is about a server that serves those who fail.
func TestClientSASLIgnored(t *testing.T) {
	srv := saslServer(t, map[string]string{"zookeeper.allowSaslFailedClients": "true"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := client.Connect(ctx, srv.addr, client.Options{SASL: client.DigestMD5("bob", "wrong"), Logger: client.NoLog})
	if err == nil || !strings.Contains(err.Error(), "allowSaslFailedClients") {
		t.Errorf("connect: %v; want an error that tells of allowSaslFailedClients", err)
	}
}
