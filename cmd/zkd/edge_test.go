package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
)

// nowhere is where no server is.
const nowhere = "127.0.0.1:1"

// edging starts an edge in the test's process, with --listen for TCP on any port unless args say something else. It returns its log, and a
// function that ends it as SIGTERM does.
func edging(t *testing.T, args ...string) (*output, func() error) {
	t.Helper()
	log := newOutput()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, append([]string{"edge"}, args...), io.Discard, log) }()
	stop := func() error {
		cancel()
		err := <-done
		done <- err
		return err
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("%q ended with %v\n%s", args, err, log)
		}
	})
	return log, stop
}

const clientsCan = `clients can connect" address=(\S+)`

// TestEdgeIsRefused starts edges with arguments and files that are wrong. Each says what, where, and how to mend it.
func TestEdgeIsRefused(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, text)
		return path
	}
	plain, socket := file("plain", "x"), filepath.Join(dir, "live.sock")
	alive, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	login := file("login.cfg", "edge.upstream=zk1\nedge.sasl=plain\nedge.sasl.user=u\n")
	here := func(args ...string) []string { return append([]string{"--upstream", nowhere}, args...) }
	for _, c := range []struct {
		name string
		args []string
		exit int
		want string // in the error
	}{
		{"no servers", nil, exitUsage, "edge.upstream: the value is missing: it must be the servers"},
		{"servers with a path", []string{"--upstream", "zk1:2181/app"}, exitUsage, `command line: edge.upstream: "zk1:2181/app": an edge passes paths on as they are`},
		{"no server", []string{"--upstream", "zk1:x"}, exitUsage, "command line: edge.upstream"},
		{"no clients", here("--max-clients", "0"), exitUsage, `command line: edge.maxClients: "0": must be a number from 1 to`},
		{"no number", here("--max-clients", "many"), exitUsage, "max-clients"},
		{"a negative buffer", here("--max-buffer", "-1"), exitUsage, `edge.maxBuffer: "-1": must be a number from 1 to`},
		{"a port alone", here("--listen", "2181"), exitUsage, `edge.listen: "2181": must be addresses such as 127.0.0.1:2181`},
		{"a socket without a name", here("--listen", "unix:"), exitUsage, "or unix:FILE"},
		{"a page without a port", here("--http", "localhost"), exitUsage, `edge.http: "localhost": must be an address`},
		{"no authorities", here("--tls-ca", filepath.Join(dir, "none.pem")), exitUsage, "none.pem"},
		{"authorities that are none", here("--tls-ca", plain), exitUsage, plain},
		{"a key alone", here("--tls-key", plain), exitUsage, `edge.tls.key: "` + plain + `": needs edge.tls.cert`},
		{"no mechanism", here("--sasl", "magic", "--sasl-user", "u"), exitUsage, "there is no such mechanism"},
		{"a login without a user", here("--sasl", "digest-md5"), exitUsage, "needs --sasl-user"},
		{"users of an edge that nobody knows", here("--identities", plain), exitUsage, `edge.identities: "` + plain + `": the servers have to know the edge before they let it speak for others: it needs edge.tls.cert or edge.sasl`},
		{"identities that are none", here("--identities", plain, "--sasl", "digest-md5", "--sasl-user", "u", "--sasl-password-file", plain), exitUsage, `plain: line 1: "x": want user NAME IDENTITY`},
		{"two files", here(plain, plain), exitUsage, "accepts at most 1 arg"},
		{"no such flag", here("--upstrem", "x"), exitUsage, "unknown flag"},
		{"no such file", here(filepath.Join(dir, "none.cfg")), exitUsage, "none.cfg"},
		{"a server's key in the file", []string{file("server.cfg", "edge.upstream=zk1\nclientPort=2181\n")}, exitUsage, `server.cfg:2: clientPort: "2181": is a key of servers`},
		{"a wrong value in the file", []string{file("wrong.cfg", "edge.upstream=zk1\n\nedge.tls=yes\n")}, exitUsage, `wrong.cfg:3: edge.tls: "yes": must be true or false`},
		{"no mechanism in the file", []string{file("magic.cfg", "edge.upstream=zk1\nedge.sasl=magic\nedge.sasl.user=u\n")}, exitUsage, `magic.cfg:2: edge.sasl: "magic": must be one of digest-md5`},
		{"wrong servers in the file", []string{file("upstream.cfg", "\nedge.upstream=zk1:0\n")}, exitUsage, "upstream.cfg:2: edge.upstream"},
		{"a wrong login in the file", []string{login}, exitUsage, "edge.sasl plain sends the password to the server, so it needs TLS (edge.tls.ca FILE)"},
		{"a wrong login by a flag and the file", []string{"--sasl", "digest-md5", login}, exitUsage, "edge.sasl.user u has no password: set ZKD_EDGE_SASL_PASSWORD, or name a file by edge.sasl.passwordFile"},
		{"a wrong flag beside the file", []string{"--kerberos-cache", "c", login}, exitUsage, "edge.kerberos.* needs edge.sasl kerberos, not plain"},
		{"a port in use", here("--listen", taken.Addr().String()), exitFailure, "listen on " + taken.Addr().String()},
		{"a page's port in use", here("--listen", "127.0.0.1:0", "--http", taken.Addr().String()), exitFailure, "listen for metrics on " + taken.Addr().String()},
		{"a socket that lives", here("--listen", "unix:"+socket), exitFailure, "address already in use"},
		{"a file in place of a socket", here("--listen", "unix:"+plain), exitFailure, "address already in use"},
		{"a directory that is not there", here("--listen", "unix:"+filepath.Join(dir, "none", "s")), exitFailure, "no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := run(t.Context(), append([]string{"edge"}, c.args...), io.Discard, io.Discard)
			if err == nil || exitCode(err) != c.exit || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q and the exit code %d", err, c.want, c.exit)
			}
		})
	}
	if text, err := os.ReadFile(plain); err != nil || string(text) != "x" {
		t.Errorf("the file in place of a socket has %q, %v", text, err)
	}
}

// TestEdgeSockets has clients at a port, and at a socket in the file system whose predecessor was killed, under the settings of a file and of
// flags that go before it.
func TestEdgeSockets(t *testing.T) {
	server := serving(t)
	dir := t.TempDir()
	socket, file := filepath.Join(dir, "s"), filepath.Join(dir, "edge.cfg")
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false) // as if its process was killed
	old.Close()
	write(t, file, "edge.upstream=127.0.0.1:"+server.port+"\nedge.listen=127.0.0.1:0,unix:"+socket+"\nedge.maxClients=5\n")
	log, stop := edging(t, "--max-clients", "7", "--http", "127.0.0.1:0", file)
	address := log.await(t, clientsCan)
	log.await(t, `address=(`+socket+`)`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Connect(ctx, address, client.Options{Logger: client.NoLog, PlainSession: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(ctx, "/n", nil, client.CreateOptions{}); err != nil {
		t.Error(err)
	}
	nc, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	io.WriteString(nc, "mntr")
	text, err := io.ReadAll(nc)
	for _, want := range []string{"zk_edge_clients\t1\n", "zk_edge_clients_most\t7\n", "zk_server_state\tedge\n"} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("mntr has no %q, %v:\n%s", want, err, text)
		}
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// TestEdgeHandsOver replaces an edge: its client, its ports and its page go on. One that gets no session does not replace it.
func TestEdgeHandsOver(t *testing.T) {
	if runtime.GOOS != "linux" {
		return
	}
	server := serving(t)
	path := filepath.Join(t.TempDir(), "handover")
	args := func(upstream string) []string {
		return []string{"--upstream", upstream, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--handover", path}
	}
	first, _ := edging(t, args("127.0.0.1:"+server.port)...)
	address := first.await(t, clientsCan)
	c, err := client.Connect(t.Context(), address, client.Options{Logger: client.NoLog, PlainSession: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	since := c.Status().Since
	if err := run(t.Context(), append([]string{"edge"}, args(nowhere)...), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "the edge that runs is not replaced: no session") {
		t.Errorf("an edge without a server: %v", err)
	}
	second, _ := edging(t, args("127.0.0.1:"+server.port)...)
	if got := second.await(t, clientsCan); got != address {
		t.Errorf("the successor is at %s, not %s", got, address)
	}
	first.await(t, "(another edge has taken over)")
	if _, err := c.Get(t.Context(), "/"); err != nil || c.Status().Since != since {
		t.Errorf("%v, or the client has lost its connection", err)
	}
}

// TestEdgeTells reads the pages of an edge, asks for its status, and has its file checked.
func TestEdgeTells(t *testing.T) {
	server := serving(t)
	log, _ := edging(t, "--upstream", "127.0.0.1:"+server.port, "--listen", "127.0.0.1:0", "--http", freeHTTP(t))
	address := log.await(t, clientsCan)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"status", "--strict", address}, &out, io.Discard); err != nil || !strings.Contains(out.String(), address+"  edge ") {
		t.Errorf("%v\n%s", err, out.String())
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "edge.cfg")
	write(t, file, "edge.upstream=zk1\n")
	out.Reset()
	if err := run(t.Context(), []string{"config", "check", "--strict", file}, &out, io.Discard); err != nil || !strings.HasPrefix(out.String(), "edge.upstream=zk1 ") {
		t.Errorf("config check: %v\n%s", err, out.String())
	}
	if err := run(t.Context(), []string{file}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "is the configuration of an edge: zkd edge "+file) {
		t.Errorf("a server with the file of an edge: %v", err)
	}
}

// freeHTTP returns an address for pages.
func freeHTTP(t *testing.T) string { return "127.0.0.1:" + freePorts(t, 1)[0] }

// TestEdgePages asks for the metrics, and whether an edge is ready: not before it has a server.
func TestEdgePages(t *testing.T) {
	server := serving(t)
	get := func(address, path string) (int, string) {
		t.Helper()
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		http.DefaultClient.CloseIdleConnections()
		return resp.StatusCode, string(text)
	}
	for upstream, want := range map[string]struct {
		code int
		text string
	}{"127.0.0.1:" + server.port: {http.StatusOK, "ok\n"}, nowhere: {http.StatusServiceUnavailable, nowhere}} {
		page := freeHTTP(t)
		log, _ := edging(t, "--upstream", upstream, "--listen", "127.0.0.1:0", "--http", page)
		log.await(t, clientsCan)
		if code, text := get(page, "/readyz"); code != want.code || !strings.Contains(text, want.text) {
			t.Errorf("%s: /readyz: %d %q", upstream, code, text)
		}
		if code, text := get(page, "/metrics"); code != http.StatusOK || !strings.Contains(text, "\nzk_edge_clients 0\n") {
			t.Errorf("%s: /metrics: %d %q", upstream, code, text)
		}
	}
}

// TestEdgeEndsBySignal ends the process of an edge by SIGTERM. Its socket had the rights that its umask left.
func TestEdgeEndsBySignal(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	cmd := program(t, "edge", "--upstream", nowhere, "--listen", "unix:"+socket)
	cmd.Args = append([]string{"sh", "-c", `umask 0117; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	log := newOutput()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() }) // if it has not ended
	log.await(t, clientsCan)
	if info, err := os.Stat(socket); err != nil || info.Mode() != fs.ModeSocket|0o660 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}
