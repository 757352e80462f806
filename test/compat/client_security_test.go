//go:build compat

package compat

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/sasl"
	"github.com/zkd-project/zkd/client/secure"
	"github.com/zkd-project/zkd/internal/testing/certs"
	"github.com/zkd-project/zkd/internal/testing/freeport"
)

// dialClient connects, within a time that none of these tests should need.
func dialClient(t *testing.T, addr string, opts client.Options) (*client.Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programDeadline)
	defer cancel()
	opts.Logger = client.NoLog
	c, err := client.Connect(ctx, addr, opts)
	if c != nil {
		t.Cleanup(func() { c.Close(context.Background()) }) // the test is over
	}
	return c, err
}

// refused connects in vain, and returns the error, which must have the text. The client tries until its time
// is over, and a slow server may need more of it to say why: so the times grow.
func refused(t *testing.T, addr string, opts client.Options, text string) error {
	t.Helper()
	opts.Logger = client.NoLog
	for patience := time.Second; ; patience *= 3 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		c, err := client.Connect(ctx, addr, opts)
		cancel()
		if err == nil {
			c.Close(context.Background()) // the test has failed
			t.Fatalf("connected to %s; want an error with %q", addr, text)
		}
		if strings.Contains(err.Error(), text) {
			return err
		}
		if patience > time.Minute {
			t.Fatalf("%v; want an error with %q", err, text)
		}
	}
}

// identities are what WhoAmI shows, as scheme:id.
func identities(t *testing.T, c *client.Client) []string {
	t.Helper()
	list, err := c.Session().WhoAmI(t.Context())
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
	for _, k := range []kind{apache, zkd} {
		for _, name := range []string{"plain", "required", "enforced"} {
			t.Run(string(k)+"/"+name, func(t *testing.T) { testSASL(t, saslServer(t, k, saslSettings[name])) })
		}
	}
}

func testSASL(t *testing.T, srv *server) {
	for _, u := range []struct{ user, password string }{
		{"bob", "secret"}, {"renée", "pässwort"}, {"Жук", "пароль"}, {`a"b\c`, `q"r\s`},
	} {
		c, err := dialClient(t, srv.addr, client.Options{SASL: sasl.DigestMD5(u.user, u.password)})
		if err != nil {
			t.Errorf("%s: %v", u.user, err)
			continue
		}
		if ids := identities(t, c); !slices.Contains(ids, "sasl:"+u.user) {
			t.Errorf("%s is %q", u.user, ids)
		}
		path := "/" + u.user
		acl := []client.ACL{{Perms: client.PermAll, ID: client.ID{Scheme: "sasl", ID: u.user}}}
		if _, err := c.Create(t.Context(), path, nil, client.CreateOptions{ACL: acl}); err != nil {
			t.Errorf("create %s: %v", path, err)
		}
		if _, err := c.Get(t.Context(), path); err != nil {
			t.Errorf("get %s, which belongs to the user: %v", path, err)
		}
	}
	for _, u := range []struct{ user, password string }{{"bob", "wrong"}, {"nobody", "wrong"}, {"bob", ""}} {
		_, err := dialClient(t, srv.addr, client.Options{SASL: sasl.DigestMD5(u.user, u.password)})
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
			opts := client.Options{SASL: sasl.DigestMD5("bob", "secret")}
			if err := refused(t, srv.addr, opts, "the server has no SASL"); errors.Is(err, client.ErrAuthFailed) {
				t.Errorf("connect: %v, which no password helps against", err)
			}
			opts.SASLOptional = true
			c, err := dialClient(t, srv.addr, opts)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Get(t.Context(), "/"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestClientSASLIgnored is about a server that serves those who fail.
func TestClientSASLIgnored(t *testing.T) {
	for _, k := range []kind{apache, zkd} {
		t.Run(string(k), func(t *testing.T) { testSASLIgnored(t, saslServer(t, k, saslSettings["allowed"])) })
	}
}

func testSASLIgnored(t *testing.T, srv *server) {
	refused(t, srv.addr, client.Options{SASL: sasl.DigestMD5("bob", "wrong")}, "allowSaslFailedClients")
}

func TestClientTLS(t *testing.T) {
	for _, k := range []kind{apache, zkd} {
		t.Run(string(k), func(t *testing.T) { testClientTLS(t, k) })
	}
}

func testClientTLS(t *testing.T, k kind) {
	t.Parallel()
	needServer(t, k)
	dir, ca, stranger := t.TempDir(), certs.New(t, "ca"), certs.New(t, "stranger")
	bob := ca.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: "bob", Organization: []string{"Example"}}, DNSNames: []string{"bob"}})
	write := func(name string, content []byte) string { return certs.Write(t, dir, name, content) }
	trust, other := write("trust.pem", ca.CertPEM()), write("other.pem", stranger.CertPEM())
	own, bobs, eves := write("own.pem", ca.Issue("127.0.0.1").PEM(t)), write("bob.pem", bob.PEM(t)), write("eve.pem", stranger.Issue("eve").PEM(t))

	port := freeport.For(t, 1)[0]
	start(t, k, config{
		lines: []string{
			fmt.Sprintf("secureClientPort=%d", port),
			"secureClientPortAddress=127.0.0.1",
			"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
			"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
			"ssl.keyStore.location=" + own,
			"ssl.trustStore.location=" + trust,
		},
		// Client certificates here name no host.
		props: map[string]string{"zookeeper.ssl.hostnameVerification": "false", "zookeeper.ssl.clientHostnameVerification": "false"},
	})
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	with := func(f secure.Files) client.Options {
		configs, err := f.Load()
		if err != nil {
			t.Fatal(err)
		}
		return client.Options{Secure: secure.For(configs), Timeout: 30 * time.Second}
	}

	c, err := dialClient(t, addr, with(secure.Files{CA: trust, Cert: bobs}))
	if err != nil {
		t.Fatal(err)
	}
	if ids := identities(t, c); !slices.Contains(ids, "x509:CN=bob,O=Example") {
		t.Errorf("bob is %q", ids)
	}
	acl, err := client.ParseACL("x509:CN=bob,O=Example:cdrwa")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(t.Context(), "/bob", []byte("x"), client.CreateOptions{ACL: acl}); err != nil {
		t.Error(err)
	}
	if node, err := c.Get(t.Context(), "/bob"); string(node.Data) != "x" || err != nil {
		t.Errorf("get /bob: %q, %v", node.Data, err)
	}

	for _, bad := range []struct {
		name, addr string
		files      secure.Files
		want       string
	}{
		{"no certificate", addr, secure.Files{CA: trust}, "it may want a certificate"},
		{"unknown client", addr, secure.Files{CA: trust, Cert: eves}, "of an authority that it trusts"},
		{"unknown server", addr, secure.Files{CA: other, Cert: bobs}, "has to be in secure.Files.CA"},
		{"wrong host", strings.Replace(addr, "127.0.0.1", "localhost", 1), secure.Files{CA: trust, Cert: bobs}, "list the server under a name of its certificate"},
	} {
		t.Logf("%s: %v", bad.name, refused(t, bad.addr, with(bad.files), bad.want))
	}
}
