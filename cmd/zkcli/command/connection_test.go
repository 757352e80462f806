package command

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/certs"
)

// run runs zkcli and returns what it wrote, and its exit code.
func run(t *testing.T, ctx context.Context, env map[string]string, args ...string) (out, errOut string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Main(ctx, args, Streams{
		In: strings.NewReader(""), Out: &stdout, Err: &stderr, Getenv: func(name string) string { return env[name] },
	})
	return stdout.String(), stderr.String(), code
}

// TestNoServer wants one line with each server and why, and no long wait.
func TestNoServer(t *testing.T) {
	const a, b = "127.0.0.1:1", "127.0.0.1:2" // a port that was free may be taken by now
	_, errOut, code := run(t, t.Context(), nil, "-server", a+","+b, "--wait", "200ms", "ls", "/")
	if code != exitConnection || strings.Count(errOut, "\n") != 1 || !strings.Contains(errOut, a+": ") || !strings.Contains(errOut, b+": ") {
		t.Errorf("exit %d, stderr:\n%s", code, errOut)
	}
	_, errOut, code = run(t, t.Context(), nil, "-server", a, "--wait", "200ms", "-o", "json", "ls", "/")
	var f failure
	if err := json.Unmarshal([]byte(errOut), &f); err != nil || f.Exit != code || f.Code != "ConnectionLoss" {
		t.Errorf("exit %d, %v, stderr:\n%s", code, err, errOut)
	}
}

// Servers that refuse connections are not waited for as long as silent ones.
func TestAllRefuse(t *testing.T) {
	const addr = "127.0.0.1:1"
	_, errOut, code := run(t, t.Context(), nil, "-server", addr+"/chroot", "ls", "/")
	if code != exitConnection || !strings.HasPrefix(errOut, "Can't connect: "+addr+": ") {
		t.Errorf("exit %d, stderr:\n%s", code, errOut)
	}
}

// TestRefusedByTLS makes the mistakes with certificates that users of a shell make. Messages name
// flags and no options of a Go program, and there is no long wait.
func TestRefusedByTLS(t *testing.T) {
	ca, dir := certs.New(t, "CA"), t.TempDir()
	trust := certs.Write(t, dir, "ca.pem", ca.CertPEM())
	other := certs.Write(t, dir, "other.pem", certs.New(t, "other").CertPEM())
	key := certs.Write(t, dir, "app.pem", ca.Issue("app").PEM(t))
	const locked = "../../../internal/keystore/testdata/key-aes256-hmacWithSHA256.pem"
	s := zktest.Start(t, zktest.Config("client.portUnification=true", "ssl.clientAuth=need",
		"ssl.keyStore.location="+certs.Write(t, dir, "key.pem", ca.Issue("127.0.0.1").PEM(t)), "ssl.trustStore.location="+trust))
	for _, tt := range []struct {
		args   []string
		prefix string
		want   string
		exit   int
	}{
		{[]string{"--tls-ca", trust}, "Can't connect: ", "it may want a certificate (--tls-cert)", exitConnection},
		{[]string{"--tls-ca", other, "--tls-cert", key}, "Can't connect: ", "has to be in the file of --tls-ca", exitConnection},
		{[]string{"--tls-key", key}, "--tls-key is " + key, "--tls-cert has to be", exitUsage},
		{[]string{"--tls-ca", trust, "--tls-cert", key, "--tls-key", locked}, "", "see $ZKCLI_TLS_KEY_PASSWORD", exitUsage},
		{[]string{"--tls-ca", trust, "--tls-cert", key}, "", "", 0},
	} {
		_, errOut, code := run(t, t.Context(), nil, append([]string{"-server", s.ConnectString(), "ls", "/"}, tt.args...)...)
		if code != tt.exit || !strings.HasPrefix(errOut, tt.prefix) || !strings.Contains(errOut, tt.want) || strings.Contains(errOut, "secure.Files") {
			t.Errorf("%q: exit %d: %s", tt.args, code, errOut)
		}
	}
}

// TestDeadline stalls the server in the middle of a command.
func TestDeadline(t *testing.T) {
	s := zktest.Start(t)
	s.Stall()
	_, errOut, code := run(t, t.Context(), nil, "-server", s.ConnectString(), "--deadline", "200ms", "ls", "/")
	if code != exitTimeout || strings.Count(errOut, "\n") != 1 {
		t.Errorf("exit %d, stderr:\n%s", code, errOut)
	}
}

// TestCancel ends a command as Ctrl-C does.
func TestCancel(t *testing.T) {
	s := zktest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.Stall()
	time.AfterFunc(50*time.Millisecond, cancel)
	_, errOut, code := run(t, ctx, nil, "-server", s.ConnectString(), "ls", "/")
	if code != exitInterrupt || !strings.HasPrefix(errOut, "Interrupted") || strings.Count(errOut, "\n") != 1 {
		t.Errorf("exit %d, stderr:\n%s", code, errOut)
	}
}

// TestEnvironment takes server and identity from the environment.
func TestEnvironment(t *testing.T) {
	s := zktest.Start(t)
	env := map[string]string{envServer: s.ConnectString(), envAuth: "digest:bob:secret"}
	out, errOut, code := run(t, t.Context(), env, "whoami")
	if code != 0 || !strings.Contains(out, "digest: bob\n") {
		t.Errorf("exit %d, stdout:\n%s\nstderr:\n%s", code, out, errOut)
	}
}

// TestSession creates an ephemeral node, sees the prompt, and loses the session.
func TestSession(t *testing.T) {
	s := zktest.Start(t)
	var out bytes.Buffer
	a := New(Streams{In: strings.NewReader(""), Out: &out, Err: &out, Getenv: func(string) string { return "" }})
	a.opts.Server, a.session = s.ConnectString(), true
	defer a.Close()
	ctx := t.Context()
	if err := a.Line(ctx, "create -e /e"); err != nil {
		t.Fatal(err)
	}
	if got, want := a.prompt(), "[zk: "+s.ConnectString()+"(CONNECTED) 1] "; got != want {
		t.Errorf("prompt = %q, want %q", got, want)
	}
	states := a.conn.c.Session().States(ctx)
	s.ExpireSession(a.conn.c.Session().ID())
	for change := range states {
		if change.To == client.StateExpired {
			break
		}
	}
	out.Reset()
	if err := a.Line(ctx, "ls /"); ExitCode(err) != exitConnection || !strings.Contains(out.String(), "connect opens a new session") {
		t.Errorf("ls of an expired session = %v:\n%s", err, out.String())
	}
	if err := a.Line(ctx, "connect"); err != nil {
		t.Fatal(err)
	}
	if err := a.Line(ctx, "get /e"); ExitCode(err) != exitNoNode {
		t.Errorf("get of the ephemeral node of an expired session = %v", err)
	}
	a.Line(ctx, "close")
	if got, want := a.prompt(), "[zk: "+s.ConnectString()+"(CLOSED) 5] "; got != want {
		t.Errorf("prompt = %q, want %q", got, want)
	}
}

// TestComplete completes commands, flags, their values, and znodes.
func TestComplete(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	for _, path := range []string{"/app", "/app/a", "/app/b", "/apple"} {
		if _, err := c.Create(t.Context(), path, nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	a := New(Streams{Getenv: func(string) string { return "" }})
	a.opts.Server, a.session = s.ConnectString(), true
	defer a.Close()
	for _, x := range []struct{ words, word, want string }{
		{"", "getA", "getAcl getAllChildrenNumber"},
		{"", "GETACL", "getAcl"},
		{"ls", "-R", "-R"},
		{"set", "--v", "--version"},
		{"ls -s", "", "/"},
		{"ls", "/", "/app /apple /zookeeper"},
		{"ls -R", "/app/", "/app/a /app/b"},
		{"ls /app", "/", ""},
		{"get", "/none/", ""},
		{"get", "app", ""},
		{"addWatch -m", "", "PERSISTENT PERSISTENT_RECURSIVE"},
		{"get -o", "j", "json"},
		{"help", "sy", "sync"},
		{"printwatches", "o", "off on"},
		{"nosuch", "/", ""},
	} {
		found, err := a.Complete(t.Context(), strings.Fields(x.words), x.word)
		var got []string
		for _, f := range found {
			got = append(got, f.Text)
		}
		slices.Sort(got)
		if err != nil || strings.Join(got, " ") != x.want {
			t.Errorf("Complete(%q, %q) = %q, %v; want %q", x.words, x.word, got, err, x.want)
		}
	}
}

// TestProperties takes TLS from zkCli.sh's file, and says what it can't take.
func TestProperties(t *testing.T) {
	file := filepath.Join(t.TempDir(), "client.properties")
	for _, c := range []struct {
		text string
		want security
		err  string
	}{
		{"# none\n\nzookeeper.client.secure = true\n", security{tls: true}, ""},
		{"zookeeper.ssl.keyStore.location=/k.pem\nzookeeper.ssl.trustStore.location=/t.pem\n", security{cert: "/k.pem", ca: "/t.pem"}, ""},
		{"zookeeper.ssl.keyStore.location=/k.pem\nzookeeper.ssl.keyStore.password=x\n", security{cert: "/k.pem", keyPassword: "x"}, ""},
		{"jute.maxbuffer=0x200000\nother=x\n", security{maxBuffer: 2 << 20}, ""},
		{"zookeeper.ssl.keyStore.location=/k.jks\n", security{}, "PEM"},
		{"jute.maxbuffer=lots\n", security{}, "no number"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := security{clientConfig: file}
		err := s.readProperties()
		c.want.clientConfig = file
		if c.err == "" && (err != nil || s != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: %+v, %v; want %+v, %q", c.text, s, err, c.want, c.err)
		}
	}
}
