//go:build compat

package compat

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkd-project/zkd/internal/testing/certs"
	"github.com/zkd-project/zkd/internal/testing/freeport"
)

// storePassword is that of all stores here.
const storePassword = "changeit"

// secureFiles are the files of a server and of a client: PEM, and Java's.
type secureFiles struct {
	ca, cert, key        string // PEM
	serverKey, clientKey string // PKCS12
	trust                string // JKS
	clientTLS            *tls.Config
}

func makeSecureFiles(t *testing.T) *secureFiles {
	t.Helper()
	require(t, need{"openssl", "openssl"}, need{"keytool", "default-jre-headless"})
	dir, ca := t.TempDir(), certs.New(t, "CA")
	own, bob := ca.Issue("localhost", "127.0.0.1"), ca.Issue("bob")
	f := &secureFiles{
		ca: certs.Write(t, dir, "ca.pem", ca.CertPEM()), cert: certs.Write(t, dir, "bob.crt", bob.CertPEM()),
		key: certs.Write(t, dir, "bob.pem", bob.PEM(t)), trust: filepath.Join(dir, "trust.jks"),
	}
	tool := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	store := func(name string, p certs.Pair) string {
		text, file := certs.Write(t, dir, name+".pem", p.PEM(t)), filepath.Join(dir, name+".p12")
		tool("openssl", "pkcs12", "-export", "-in", text, "-out", file, "-passout", "pass:"+storePassword)
		return file
	}
	f.serverKey, f.clientKey = store("server", own), store("client", bob)
	tool("keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", f.ca, "-storetype", "JKS", "-keystore", f.trust, "-storepass", storePassword)
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	f.clientTLS = &tls.Config{RootCAs: pool, ServerName: "localhost", Certificates: []tls.Certificate{bob.TLS()}}
	return f
}

// startSecure starts a server with a port for TLS, and returns that port's address.
func startSecure(t *testing.T, k kind, f *secureFiles, lines ...string) string {
	t.Helper()
	port := freeport.For(t, 1)[0]
	start(t, k, config{
		lines: append(lines,
			fmt.Sprintf("secureClientPort=%d", port), "secureClientPortAddress=127.0.0.1",
			"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
			"ssl.keyStore.location="+f.serverKey, "ssl.keyStore.password="+storePassword,
			"ssl.trustStore.location="+f.trust, "ssl.trustStore.password="+storePassword,
		),
		props: map[string]string{"zookeeper.ssl.clientHostnameVerification": "false"},
	})
	return fmt.Sprintf("localhost:%d", port)
}

// javaTLS are the properties of a Java client with TLS.
func (f *secureFiles) javaTLS() []string {
	return []string{
		"-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty", "-Dzookeeper.client.secure=true",
		"-Dzookeeper.ssl.keyStore.location=" + f.clientKey, "-Dzookeeper.ssl.keyStore.password=" + storePassword,
		"-Dzookeeper.ssl.trustStore.location=" + f.trust, "-Dzookeeper.ssl.trustStore.password=" + storePassword,
	}
}

// TestTLSZkCli runs zkCli.sh's class with TLS. The client is known by its certificate.
func TestTLSZkCli(t *testing.T) {
	t.Parallel()
	needApache(t)
	f := makeSecureFiles(t)
	addr := startSecure(t, target(t), f)
	classPath := serverClassPath + ":" + filepath.Join(javaDir, "netty-resolver.jar") + ":" + filepath.Join(javaDir, "commons-cli.jar")
	cli := append(append([]string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", classPath}, f.javaTLS()...),
		"org.apache.zookeeper.ZooKeeperMain", "-waitforconnection", "-server", addr)
	for command, want := range map[string]string{"whoami": "x509: CN=bob", "create /zkcli hello": "Created /zkcli"} {
		ctx, cancel := context.WithTimeout(t.Context(), programDeadline)
		defer cancel()
		out, err := exec.CommandContext(ctx, "java", append(cli[:len(cli):len(cli)], strings.Fields(command)...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
}

// TestTLSCurator runs the program of TestCurator with TLS.
func TestTLSCurator(t *testing.T) {
	t.Parallel()
	needJavac(t)
	require(t, need{filepath.Join(javaDir, "curator-recipes.jar"), "libcurator-recipes-java"}, need{filepath.Join(javaDir, "guava.jar"), "libguava-java"})
	f := makeSecureFiles(t)
	addr := startSecure(t, target(t), f)
	java := javaCommand(t, "curator", "CuratorProgram",
		"zookeeper", "zookeeper-jute", "curator-client", "curator-framework", "curator-recipes", "guava", "slf4j-simple", "netty-codec", "netty-resolver")
	args := append(f.javaTLS(), java[1:]...)
	runProgram(t, java[0], append(args, addr)...)
}

// TestTLSClients39 runs Java's client and zkCli.sh's class of 3.9, kazoo and our zkcli with TLS. They
// must see the same with Apache's server, on Netty, as with the target: both have the same files.
func TestTLSClients39(t *testing.T) {
	t.Parallel()
	needReference(t, apache39)
	needJavac(t)
	require(t, need{kazooTests, "python3-kazoo"})
	f := makeSecureFiles(t)
	java := javaCommand(t, "client", "ClientProgram", "zookeeper", "zookeeper-jute", "slf4j-simple")
	at := slices.Index(java, "-cp") + 1
	classes, _, _ := strings.Cut(java[at], ":")
	java[at] = classes + ":" + classPath(apache39)
	cli := slices.Concat(java[1:at+1], f.javaTLS(), []string{"org.apache.zookeeper.ZooKeeperMain", "-waitforconnection"})
	zkcli := buildZkcli(t)
	run := func(what, name string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), programDeadline)
		defer cancel()
		out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
		results, _ := splitEvents(string(out))
		lines := slices.DeleteFunc(splitLines(results), func(line string) bool { return strings.HasPrefix(line, "Connecting to") })
		slices.Sort(lines) // Apache's server has no order of identities
		return what + ": " + strings.Join(lines, ", ") + "\n"
	}
	var said []string
	for _, k := range []kind{apache39, target(t)} {
		addr := startSecure(t, k, f)
		// The program's own identities are all that its nodes may have.
		anonymous := startSecure(t, k, f, "ssl.clientAuth=none")
		runProgram(t, java[0], slices.Concat(f.javaTLS(), java[1:], []string{anonymous})...)
		text := run("kazoo", python, "-c", kazooTLS, addr, f.cert, f.key, f.ca)
		for _, command := range []string{"whoami", "create /zkcli hello", "get /zkcli"} {
			text += run("zkCli.sh "+command, "java", slices.Concat(cli, []string{"-server", addr}, strings.Fields(command))...)
			text += run("zkcli "+command, zkcli, append([]string{"-server", addr, "--tls-ca", f.ca, "--tls-cert", f.cert, "--tls-key", f.key}, strings.Fields(strings.ReplaceAll(command, "create /zkcli", "create /ours"))...)...)
		}
		said = append(said, text)
	}
	if said[0] != said[1] || strings.Count(said[0], "x509: CN=bob") != 2 {
		t.Errorf("%s:\n%s\n%s:\n%s", apache39, said[0], target(t), said[1])
	}
}

const kazooTLS = `
import sys
from kazoo.client import KazooClient
addr, cert, key, ca = sys.argv[1:]
c = KazooClient(hosts=addr, use_ssl=True, certfile=cert, keyfile=key, ca=ca)
c.start(timeout=20)
c.create("/kazoo", b"x" * 200000)
assert c.get("/kazoo")[0] == b"x" * 200000
c.stop()
`

// TestTLSKazoo uses kazoo with use_ssl.
func TestTLSKazoo(t *testing.T) {
	t.Parallel()
	require(t, need{kazooTests, "python3-kazoo"})
	f := makeSecureFiles(t)
	addr := startSecure(t, target(t), f)
	if out, err := exec.Command(python, "-c", kazooTLS, addr, f.cert, f.key, f.ca).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTLSC runs the C client's shell with TLS, on Apache's server and on the target.
func TestTLSC(t *testing.T) {
	t.Parallel()
	needReference(t, apache39)
	program := filepath.Join(os.Getenv("C_CLIENT"), "bin", "cli_mt")
	require(t, need{program, "gcc libssl-dev npm, and C_CLIENT as test/world/fetch.sh c-client prints it"})
	f := makeSecureFiles(t)
	stranger := certs.Write(t, t.TempDir(), "ca.pem", certs.New(t, "another").CertPEM())
	for _, k := range []kind{apache39, target(t)} {
		addr := startSecure(t, k, f)
		run := func(ca, command string) string {
			ctx, cancel := context.WithTimeout(t.Context(), programDeadline)
			defer cancel()
			out, _ := exec.CommandContext(ctx, program, "-h", addr, "-s", strings.Join([]string{ca, f.cert, f.key, ""}, ","), "-c", command).CombinedOutput()
			return string(out)
		}
		for _, c := range []struct{ command, want string }{
			{"create /c", "[/c]: rc = 0"}, {"set /c data", "rc = 0"}, {"get /c", "value_len = 4"}, {"ls /", "zookeeper"}, {"delete /c", "rc = 0"}, {"get /c", "rc = -101"},
		} {
			if out := run(f.ca, c.command); !strings.Contains(out, c.want) {
				t.Errorf("%s: %s: no %q in:\n%s", k, c.command, c.want, out)
			}
		}
		if out := run(stranger, "get /zookeeper"); !strings.Contains(out, "error in ssl connect") || strings.Contains(out, "value_len") {
			t.Errorf("%s: the C client is content with the certificate of another authority:\n%s", k, out)
		}
	}
}

// TestTLSGoZookeeper gives go-zookeeper a dialer with TLS.
func TestTLSGoZookeeper(t *testing.T) {
	t.Parallel()
	f := makeSecureFiles(t)
	addr := startSecure(t, target(t), f)
	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false),
		zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, f.clientTLS)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Create("/go", []byte("x"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Error(err)
	}
}

// TestTLSOpenSSL asks a four-letter word through openssl, and tries to renegotiate, which
// is refused.
func TestTLSOpenSSL(t *testing.T) {
	t.Parallel()
	f := makeSecureFiles(t)
	addr := startSecure(t, target(t), f)
	client := func(args ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), programDeadline)
		t.Cleanup(cancel)
		return exec.CommandContext(ctx, "openssl", append([]string{"s_client", "-connect", addr, "-CAfile", f.ca, "-cert", f.cert, "-key", f.key}, args...)...)
	}
	ask := func(args ...string) string {
		cmd := client(append(args, "-quiet")...)
		cmd.Stdin = strings.NewReader("srvr")
		out, _ := cmd.CombinedOutput() // its status is not 0 if the server closes
		return string(out)
	}
	for _, version := range []string{"-tls1_2", "-tls1_3"} {
		if out := ask(version); !strings.Contains(out, "Mode: standalone") {
			t.Errorf("%s: srvr: %s", version, out)
		}
	}
	for _, old := range []string{"-tls1", "-tls1_1"} {
		if out := ask(old, "-cipher", "DEFAULT@SECLEVEL=0"); strings.Contains(out, "Mode:") {
			t.Errorf("the server accepts %s: %s", old, out)
		}
	}
	if out, asked := renegotiate(t, client("-tls1_2")); !asked || target(t) == zkd && strings.Contains(out, "Mode:") {
		t.Errorf("openssl asks to renegotiate: %t; the server says: %s", asked, out)
	}
}

// renegotiate lets openssl begin another handshake on its connection, and then ask for srvr. It returns what
// openssl prints, and whether it asked for that handshake.
func renegotiate(t *testing.T, cmd *exec.Cmd) (printed string, asked bool) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, "R\n")
	for lines := bufio.NewScanner(out); lines.Scan(); printed += lines.Text() + "\n" {
		if lines.Text() == "RENEGOTIATING" {
			asked = true
			io.WriteString(in, "srvr\n")
		}
	}
	cmd.Wait() // its status is not 0 if the server closes
	return printed, asked
}
