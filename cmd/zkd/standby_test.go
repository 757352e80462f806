package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/certs"
)

// TestStandbyRefuses checks what the commands say to what they can't do.
func TestStandbyRefuses(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	single, member := filepath.Join(dir, "single.cfg"), filepath.Join(dir, "member.cfg")
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(single, "clientPort=2181\ndataDir="+data+"\n")
	write(member, "clientPort=0\ninitLimit=1\nsyncLimit=1\ndataDir="+data+"\nadmin.enableServer=false\nzkd.myid=7\nserver.7=localhost:1:2\nserver.8=localhost:3:4\n")
	for _, tt := range []struct {
		args string
		exit int
		want string
	}{
		{member, exitUsage, "--of"},
		{"--of zk1:8080 " + member, exitUsage, "http://zk1:8080"},
		{"--of http://zk1:8080", exitUsage, "accepts 1 arg"},
		{"--of http://zk1:8080 " + single, exitUsage, "standaloneEnabled=false"},
		{"--of http://zk1:8080 nothing", exitUsage, "nothing"},
		{"--of http://zk1:8080 --auth-file nowhere " + member, exitUsage, "--auth-file"},
		{"status " + dir, exitFailure, "no running copy"},
		{"promote " + single, exitUsage, "standaloneEnabled=false"},
		{"promote --accept-data-loss-after zxid " + member, exitUsage, "is no zxid"},
		{"promote " + member, exitFailure, "no such file"},
	} {
		err := run(t.Context(), append([]string{"standby"}, strings.Fields(tt.args)...), io.Discard, io.Discard)
		if err == nil || exitCode(err) != tt.exit || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("standby %s: exit code %d, %v; want %d, %s", tt.args, exitCode(err), err, tt.exit, tt.want)
		}
	}
}

// TestStandbyOverTLS shows its certificate to an AdminServer, with what authenticates it, and follows no other.
func TestStandbyOverTLS(t *testing.T) {
	ca, other := certs.New(t, "ca"), certs.New(t, "another")
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	var asked atomic.Pointer[http.Request]
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r)
		http.Error(w, "{}", http.StatusForbidden)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue("127.0.0.1").TLS()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	for _, trusted := range []*certs.Authority{ca, other} {
		asked.Store(nil)
		dir := t.TempDir()
		keys, trust := certs.Write(t, dir, "keys.pem", ca.Issue("127.0.0.1").PEM(t)), certs.Write(t, dir, "trust.pem", trusted.CertPEM())
		auth := certs.Write(t, dir, "auth", []byte("digest:user:password\n"))
		file := certs.Write(t, dir, "zoo.cfg", []byte("clientPort=0\ninitLimit=1\nsyncLimit=1\ndataDir="+filepath.Join(dir, "data")+"\nadmin.enableServer=false\nzkd.myid=7\nserver.7=localhost:1:2\nserver.8=localhost:3:4\n"+
			"ssl.quorum.keyStore.location="+keys+"\nssl.quorum.trustStore.location="+trust+"\n"))
		ctx, cancel := context.WithCancel(t.Context())
		out := newOutput()
		ended := make(chan error, 1)
		go func() {
			ended <- run(ctx, []string{"standby", "--of", server.URL, "--auth-file", auth, file}, out, out)
		}()
		if trusted == ca {
			err := <-ended
			if r := asked.Load(); err == nil || !strings.Contains(err.Error(), "all permissions") || r == nil || r.Header.Get("Authorization") != "digest user:password" {
				t.Errorf("the standby ended with %v", err)
			}
		} else {
			out.await(t, "(is not followed)")
			if asked.Load() != nil {
				t.Error("a standby asks a server of another authority")
			}
		}
		cancel()
		if trusted != ca {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
}
