package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/secure"
	"github.com/zkd-project/zkd/internal/testing/certs"
)

// TestSecure starts an ensemble with zkd.secure=true. Clients with a certificate use it; others
// get nothing.
func TestSecure(t *testing.T) {
	const size = 3
	dir, authority, ports := t.TempDir(), certs.New(t, "CA"), freePorts(t, 3*size)
	key := certs.Write(t, dir, "key.pem", authority.Issue("localhost", "127.0.0.1").PEM(t))
	trust := certs.Write(t, dir, "trust.pem", authority.CertPEM())
	text := "zkd.secure=true\nsslQuorum=true\ninitLimit=10\nsyncLimit=5\n"
	for _, prefix := range []string{"ssl.", "ssl.quorum."} {
		text += prefix + "keyStore.location=" + key + "\n" + prefix + "trustStore.location=" + trust + "\n"
	}
	var addrs []string
	for id := 1; id <= size; id++ {
		mine := ports[3*(id-1):]
		text += fmt.Sprintf("server.%d=127.0.0.1:%s:%s\n", id, mine[0], mine[1])
		addrs = append(addrs, "127.0.0.1:"+mine[2])
	}
	var logs []*output
	for id := 1; id <= size; id++ {
		file := filepath.Join(dir, fmt.Sprint(id, ".cfg"))
		write(t, file, text+fmt.Sprintf("zkd.myid=%d\ndataDir=%s/%d\nsecureClientPort=%s\nsecureClientPortAddress=127.0.0.1\n",
			id, dir, id, ports[3*(id-1)+2]))
		ctx, stop := context.WithCancel(t.Context())
		log, done := newOutput(), make(chan error, 1)
		go func() { done <- run(ctx, []string{file}, io.Discard, log) }()
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Errorf("stopped: %v\n%s", err, log)
			}
		})
		logs = append(logs, log)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AddCert(authority.Cert)
	if conn, err := tls.Dial("tcp", addrs[0], config); err == nil {
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a client without a certificate is served")
		}
		conn.Close()
	}
	config.Certificates = []tls.Certificate{authority.Issue("app").TLS()}
	for i, addr := range addrs {
		logs[i].await(t, `(serving clients)`)
		c, err := client.New(addr, client.Options{Secure: secure.TLS(config), Logger: client.NoLog})
		if err != nil {
			t.Fatal(err)
		}
		path := fmt.Sprint("/", i)
		if _, err := c.Create(t.Context(), path, nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		logs[i].await(t, `(user=127\.0\.0\.1,CN=app\s+ip=127\.0\.0\.1\s+operation=create\s+znode=`+path+`\s)`)
		for command, want := range map[string]string{"status": " follower | leader ", "ready": "is ready", "live": "is live"} {
			var out bytes.Buffer
			err := run(t.Context(), []string{command, "--config", filepath.Join(dir, fmt.Sprint(i+1, ".cfg"))}, &out, io.Discard)
			if err != nil || !slices.ContainsFunc(strings.Split(want, "|"), func(part string) bool { return strings.Contains(out.String(), strings.TrimSpace(part)) }) {
				t.Errorf("%s of server %d: %v, %s", command, i+1, err, &out)
			}
		}
		if strings.Contains(logs[i].String(), `"port": "clientPort"`) {
			t.Errorf("server %d has a port without TLS:\n%s", i+1, logs[i])
		}
	}
}
