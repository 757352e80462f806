package edge

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client/sasl"
	"github.com/zkd-project/zkd/client/secure"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/certs"
)

// TestAPasswordGoesOverTLS: an edge logs in by PLAIN, which needs TLS, on connections of each session and on those that carry many.
func TestAPasswordGoesOverTLS(t *testing.T) {
	dir, authority := t.TempDir(), certs.New(t, "ca")
	jaas := filepath.Join(dir, "jaas.conf")
	if err := os.WriteFile(jaas, []byte(`Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_edge="secret"; };`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := zktest.Start(t, zktest.Config("client.portUnification=true", "ssl.clientAuth=none", "ssl.keyStore.location="+certs.Write(t, dir, "server.pem", authority.Issue("127.0.0.1").PEM(t)),
		"java.security.auth.login.config="+jaas))
	roots := x509.NewCertPool()
	roots.AddCert(authority.Cert)
	for _, connections := range []int{0, 2} {
		_, address := start(t, s.ConnectString(), func(o *Options) {
			o.Connections, o.Client.Secure, o.Client.SASL = connections, secure.TLS(&tls.Config{RootCAs: roots}), sasl.Plain("edge", "secret")
		})
		if got := who(old(t, address)); got != "{sasl edge}" {
			t.Errorf("with %d connections: %s", connections, got)
		}
	}
}

// TestErrorsHaveTheUsersNames: a server's certificate is of an authority that the edge does not know.
func TestErrorsHaveTheUsersNames(t *testing.T) {
	dir := t.TempDir()
	s := zktest.Start(t, zktest.Config("client.portUnification=true", "ssl.clientAuth=none", "ssl.keyStore.location="+certs.Write(t, dir, "server.pem", certs.New(t, "other").Issue("127.0.0.1").PEM(t))))
	e, address := start(t, s.ConnectString(), func(o *Options) {
		o.Client.Secure, o.Names = secure.TLS(&tls.Config{RootCAs: x509.NewCertPool()}), strings.NewReplacer("secure.Files.CA or tls.Config.RootCAs", "the file of edge.tls.ca")
	})
	nc, err := net.Dial("tcp", address)
	ok(t, err)
	defer nc.Close()
	nc.Write(hello())
	until(t, "the edge has reached the server", func() bool { return e.figures.failed.Load() > 0 })
	if got := say(t, address, "srvr"); !strings.Contains(got, "has to be in the file of edge.tls.ca") {
		t.Error(got)
	}
}
