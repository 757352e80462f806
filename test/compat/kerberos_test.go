//go:build compat

package compat

import (
	"bytes"
	"context"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	krb "github.com/jcmturner/gokrb5/v8/client"
	krbconfig "github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zkd-project/zkd/internal/testing/freeport"
)

const (
	kdc         = "/usr/sbin/krb5kdc"
	kadmin      = "/usr/sbin/kadmin.local"
	realm       = "EXAMPLE.ORG"
	otherRealm  = "EVIL.ORG"
	zkPrincipal = "zookeeper/localhost"
)

// kerberos is a key distribution center with two realms, which do not trust each
// other. All its files are in a directory.
type kerberos struct {
	t    *testing.T
	dir  string
	env  []string
	conf string // krb5.conf
}

func startKerberos(t *testing.T) *kerberos {
	t.Helper()
	require(t, need{kdc, "krb5-kdc"}, need{kadmin, "krb5-admin-server"}, need{"kinit", "krb5-user"})
	dir, ports := t.TempDir(), freeport.For(t, 2)
	k := &kerberos{t: t, dir: dir, conf: filepath.Join(dir, "krb5.conf")}
	clients := "[libdefaults]\n default_realm = " + realm + "\n dns_lookup_kdc = false\n dns_lookup_realm = false\n rdns = false\n" +
		" dns_canonicalize_hostname = false\n udp_preference_limit = 1\n[realms]\n"
	center := "[logging]\n kdc = STDERR\n[realms]\n"
	for i, r := range []string{realm, otherRealm} {
		clients += fmt.Sprintf(" %s = {\n  kdc = 127.0.0.1:%d\n }\n", r, ports[i])
		center += fmt.Sprintf(" %[1]s = {\n  database_name = %[2]s/%[1]s\n  key_stash_file = %[2]s/%[1]s.stash\n  acl_file = %[2]s/acl\n"+
			"  kdc_listen = 127.0.0.2:%[3]d\n  kdc_tcp_listen = 127.0.0.1:%[3]d\n  supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal\n }\n", r, dir, ports[i]) // freeport holds the UDP port
	}
	k.write("krb5.conf", clients)
	k.write("kdc.conf", center)
	k.env = append(os.Environ(), "KRB5_CONFIG="+k.conf, "KRB5_KDC_PROFILE="+filepath.Join(dir, "kdc.conf"),
		"KRB5CCNAME=FILE:"+filepath.Join(dir, "tickets"), "KRB5RCACHETYPE=none")
	for _, r := range []string{realm, otherRealm} {
		k.run("", "/usr/sbin/kdb5_util", "create", "-s", "-r", r, "-P", "master")
		k.run("addprinc -randkey "+zkPrincipal+"\naddprinc -randkey bob\nktadd -k "+k.keytab("bob."+r)+" bob\n", kadmin, "-r", r)
	}
	k.newServiceKey("service")
	for i, r := range []string{realm, otherRealm} {
		k.serve(r, fmt.Sprintf("127.0.0.1:%d", ports[i]))
	}
	return k
}

// serve starts the key distribution center of a realm.
func (k *kerberos) serve(realm, address string) {
	k.t.Helper()
	cmd := exec.Command(kdc, "-n", "-r", realm, "-P", filepath.Join(k.dir, realm+".pid"))
	log := k.create(realm + ".log")
	cmd.Env, cmd.Stdout, cmd.Stderr = k.env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { cmd.Wait(); close(exited) }() // its log says how it ended
	k.t.Cleanup(func() { cmd.Process.Kill(); <-exited })
	err := (&server{exited: exited}).waitFor("listening", func() bool {
		nc, err := net.Dial("tcp", address)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
	if err != nil {
		k.t.Fatalf("%v\n%s", err, tail(log.Name(), 20))
	}
}

func (k *kerberos) create(name string) *os.File {
	k.t.Helper()
	f, err := os.Create(filepath.Join(k.dir, name))
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { f.Close() })
	return f
}

func (k *kerberos) write(name, text string) string {
	k.t.Helper()
	path := filepath.Join(k.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
	return path
}

func (k *kerberos) keytab(name string) string { return filepath.Join(k.dir, name+".keytab") }

// run runs a program with the environment of the realm, and returns its output.
func (k *kerberos) run(input, name string, args ...string) string {
	k.t.Helper()
	out, err := k.tryRun(input, name, args...)
	if err != nil {
		k.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

func (k *kerberos) tryRun(input, name string, args ...string) (string, error) {
	return k.typeInto(typed{then: input}, name, args...)
}

// typeInto runs a program that has what is typed, and returns what it prints.
func (k *kerberos) typeInto(in typed, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(k.t.Context(), zkCliDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	out := in.into(ctx, cmd)
	cmd.Env, cmd.Stderr = k.env, out
	err := cmd.Run()
	return out.String(), err
}

// newServiceKey gives the servers' principal a new key, and writes that to a keytab.
func (k *kerberos) newServiceKey(name string) {
	k.t.Helper()
	k.run("ktadd -k "+k.keytab(name)+" "+zkPrincipal+"\n", kadmin, "-r", realm)
}

// start starts a server with the keytab.
func (k *kerberos) start(of kind, keytab string, props map[string]string) *server {
	k.t.Helper()
	jaas := k.write("server-"+filepath.Base(keytab)+string(of), fmt.Sprintf("Server {\n  com.sun.security.auth.module.Krb5LoginModule required\n"+
		"  useKeyTab=true storeKey=true useTicketCache=false keyTab=%q principal=\"%s@%s\";\n};\n", keytab, zkPrincipal, realm))
	all := map[string]string{
		"java.security.auth.login.config": jaas,
		"zookeeper.authProvider.sasl":     "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
	}
	if of != zkd { // zkd needs no krb5.conf
		all["java.security.krb5.conf"] = k.conf
	}
	for name, value := range props {
		all[name] = value
	}
	return start(k.t, of, config{props: all})
}

// reference is the kind of Apache's server to compare with.
func reference(t *testing.T) kind {
	if zookeeper39 != "" {
		return apache39
	}
	needApache(t)
	return apache
}

const kazooKerberos = `
import logging, sys
from kazoo.client import KazooClient
from kazoo.security import make_acl
logging.disable(logging.CRITICAL)
zk = KazooClient(sys.argv[1], sasl_options={"mechanism": "GSSAPI", "service": "zookeeper"}, connection_retry={"max_tries": 0}, command_retry={"max_tries": 0})
try:
    zk.start(timeout=20)
    zk.create("/kazoo", b"x", acl=[make_acl("sasl", sys.argv[2], all=True)])
    print("kazoo reads", zk.get("/kazoo")[0])
    zk.delete("/kazoo")
except Exception as e:
    print("kazoo:", type(e).__name__)
zk.stop()
zk.close()
`

// logins logs in with all clients, and returns what is worth comparing. id is bob's identity.
func (k *kerberos) logins(srv *server, id string) string {
	k.t.Helper()
	addr := strings.Replace(srv.addr, "127.0.0.1", "localhost", 1)
	var said strings.Builder
	k.run("", "kinit", "-k", "-t", k.keytab("bob."+realm), "bob")
	said.WriteString(k.run("", python, "-c", kazooKerberos, addr, id))
	zkcli := buildZkcli(k.t)
	cli := func(name string, args ...string) {
		out, _ := k.tryRun("", zkcli, append([]string{"-server", addr}, args...)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		slices.Sort(lines) // Apache's server has no order of identities
		fmt.Fprintf(&said, "zkcli with %s: %s\n", name, strings.Join(lines, ", "))
	}
	cli("a keytab", "--kerberos-keytab", k.keytab("bob."+realm), "--sasl-user", "bob", "whoami")
	cli("tickets", "--sasl", "kerberos", "whoami")
	said.WriteString(k.zkCli(addr, id))
	return said.String()
}

// zkCli runs zkCli.sh with bob's keytab.
func (k *kerberos) zkCli(addr, id string) string {
	k.t.Helper()
	jaas := k.write("client.jaas", fmt.Sprintf("Client {\n  com.sun.security.auth.module.Krb5LoginModule required\n"+
		"  useKeyTab=true storeKey=true useTicketCache=false keyTab=%q principal=\"bob@%s\";\n};\n", k.keytab("bob."+realm), realm))
	java := []string{
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Djava.security.auth.login.config=" + jaas, "-Djava.security.krb5.conf=" + k.conf,
		"-cp", classPath(reference(k.t)) + ":" + filepath.Join(javaDir, "commons-cli.jar"), "org.apache.zookeeper.ZooKeeperMain", "-server", addr,
	}
	out, err := k.typeInto(typed{"create /cli x sasl:" + id + ":cdrwa\nget /cli\ngetAcl /cli\ndelete /cli\n", "state:SaslAuthenticated", "quit\n"}, "java", java...)
	var said []string
	for line := range strings.Lines(out) {
		if strings.Contains(line, "SaslAuthenticated") || strings.Contains(line, "AuthFailed") || strings.HasPrefix(line, "Created") || strings.HasPrefix(line, "'sasl") || line == "x\n" {
			said = append(said, line)
		}
	}
	slices.Sort(said) // when an event is shown is chance
	return fmt.Sprintf("zkCli.sh: %v\n%s", err, strings.Join(said, ""))
}

// TestKerberosClients logs in with kazoo, zkCli.sh and ours. They must see the same with Apache's
// server as with the target, which have the same keytab.
func TestKerberosClients(t *testing.T) {
	t.Parallel()
	require(t, need{python, "python3"}, need{"/usr/lib/python3/dist-packages/puresasl", "python3-pure-sasl"},
		need{"/usr/lib/python3/dist-packages/pykerberos-1.1.14.egg-info/PKG-INFO", "python3-kerberos"})
	k := startKerberos(t)
	for name, c := range map[string]struct {
		id    string
		props map[string]string
	}{
		"whole names": {"bob@" + realm, nil},
		"short names": {"bob", map[string]string{"zookeeper.kerberos.removeRealmFromPrincipal": "true", "zookeeper.kerberos.removeHostFromPrincipal": "true"}},
		"required":    {"bob@" + realm, map[string]string{"zookeeper.sessionRequireClientSASLAuth": "true"}},
	} {
		var said []string
		for _, of := range []kind{reference(t), target(t)} {
			said = append(said, k.logins(k.start(of, k.keytab("service"), c.props), c.id))
		}
		if said[0] != said[1] {
			t.Errorf("%s: %s has\n%s\n%s has\n%s", name, reference(t), said[0], target(t), said[1])
		}
		for _, want := range []string{"kazoo reads b'x'", "keytab: Auth scheme: User, ip: 127.0.0.1, sasl: " + c.id + "\n", "tickets: Auth scheme: User, ip: 127.0.0.1, sasl: " + c.id + "\n", "'sasl,'" + c.id} {
			if !strings.Contains(said[1], want) {
				t.Errorf("%s: no %q in:\n%s", name, want, said[1])
			}
		}
	}
	t.Logf("COMPARED with Apache ZooKeeper %s", versionOf(t, reference(t)))
}

// TestKerberosEdge has clients of an edge that logs in with its keytab, also at a server that was killed; and one with a key of its own at an edge that does
// not log in.
func TestKerberosEdge(t *testing.T) {
	t.Parallel()
	k := startKerberos(t)
	srv := k.start(zkd, k.keytab("service"), map[string]string{"zookeeper.sessionRequireClientSASLAuth": "true"})
	zkcli, bob := buildZkcli(t), []string{"--sasl", "kerberos", "--sasl-user", "bob", "--kerberos-keytab", k.keytab("bob." + realm)}
	isBob := func(edge *server, login ...string) {
		t.Helper()
		var out string
		err := edge.waitFor("bob", func() bool {
			out, _ = k.tryRun("", zkcli, slices.Concat([]string{"-server", edge.addr}, login, []string{"whoami"})...)
			return strings.Contains(out, "sasl: bob@"+realm+"\n")
		})
		if err != nil {
			t.Errorf("%v: %s\n%s", err, out, tail(edge.logFile(), 20))
		}
	}
	start := func(login ...string) *server {
		edge := &server{addr: fmt.Sprintf("localhost:%d", freeport.For(t, 1)[0]), dir: t.TempDir()}
		upstream := strings.Replace(srv.addr, "127.0.0.1", "localhost", 1)
		edge.args = append([]string{"env", "KRB5_CONFIG=" + k.conf, zkdBinary(t), "edge", "--upstream", upstream, "--listen", edge.addr}, login...)
		if err := edge.launch(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(edge.kill)
		return edge
	}
	edge := start(bob...)
	isBob(edge)
	isBob(start(), bob...)
	srv.kill()
	if err := srv.run(); err != nil {
		t.Fatal(err)
	}
	isBob(edge)
}

// login makes the first token of bob with a ticket of the key distribution center.
func (k *kerberos) token(of, service string, skew time.Duration) []byte {
	k.t.Helper()
	token, err := k.tryToken(of, service, skew)
	if err != nil {
		k.t.Fatal(err)
	}
	return token
}

func (k *kerberos) tryToken(of, service string, skew time.Duration) ([]byte, error) {
	settings, err := krbconfig.Load(k.conf)
	if err != nil {
		return nil, err
	}
	keys, err := keytab.Load(k.keytab("bob." + of))
	if err != nil {
		return nil, err
	}
	c := krb.NewWithKeytab("bob", of, keys, settings, krb.DisablePAFXFAST(true))
	defer c.Destroy()
	ticket, key, err := c.GetServiceTicket(service)
	if err != nil {
		return nil, err
	}
	a, err := types.NewAuthenticator(of, c.Credentials.CName())
	if err != nil {
		return nil, err
	}
	a.CTime = a.CTime.Add(skew)
	sum := append(binary.LittleEndian.AppendUint32(nil, 16), make([]byte, 20)...)
	sum[20] = 32 // integrity
	a.Cksum = types.Checksum{CksumType: 0x8003, Checksum: sum}
	request, err := messages.NewAPReq(ticket, key, a)
	if err != nil {
		return nil, err
	}
	b, errRequest := request.Marshal()
	oid, errOID := asn1.Marshal(asn1.ObjectIdentifier(gssapi.OIDKRB5.OID()))
	return asn1tools.AddASNAppTag(bytes.Join([][]byte{oid, {1, 0}, b}, nil), 0), errors.Join(errRequest, errOID)
}

// answer is what a server answers to a first token: "token", or what it says instead.
func answer(t *testing.T, srv *server, token []byte) string {
	t.Helper()
	said, _ := dialSASL(t, srv).say(string(token))
	word, _, _ := strings.Cut(said, " ")
	if word == "code" {
		return said
	}
	return word
}

// TestKerberosAttacks sends what must not log in to Apache's server and to the target.
func TestKerberosAttacks(t *testing.T) {
	t.Parallel()
	k := startKerberos(t)
	refused := "code -115 zxid 0 body "
	good := k.keytab("service")
	if _, err := k.tryToken(otherRealm, zkPrincipal+"@"+realm, 0); err == nil {
		t.Error("the key distribution center gives a ticket to a client of a realm that it does not trust")
	}
	for _, of := range []kind{reference(t), target(t)} {
		srv := k.start(of, good, nil)
		attack := func(name string, token []byte, want string) {
			t.Helper()
			if got := answer(t, srv, token); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s: got %q, want %q", of, name, got, want)
			}
		}
		token := k.token(realm, zkPrincipal, 0)
		attack("good", token, "token")
		attack("replayed", token, refused)
		attack("cut", token[:len(token)/2], refused)
		attack("a clock that is ahead", k.token(realm, zkPrincipal, 6*time.Minute), refused)
		attack("a clock that is behind", k.token(realm, zkPrincipal, -6*time.Minute), refused)
		attack("a clock that is ahead a little", k.token(realm, zkPrincipal, 4*time.Minute), "token")
		attack("of another realm", k.token(otherRealm, zkPrincipal, 0), refused)
		attack("for another service", k.token(realm, "krbtgt/"+realm, 0), refused)
		changed := bytes.Clone(k.token(realm, zkPrincipal, 0))
		changed[len(changed)-20] ^= 1
		attack("changed", changed, refused)
	}
}

// TestKerberosKeytabs gives the servers' principal a new key. A server with the old keytab refuses
// tickets for it until the keytab is replaced, which needs no restart.
func TestKerberosKeytabs(t *testing.T) {
	t.Parallel()
	k := startKerberos(t)
	file := k.keytab("renewed")
	replace := func(with string) {
		t.Helper()
		text, err := os.ReadFile(k.keytab(with))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(k.write("next", string(text)), file); err != nil {
			t.Fatal(err)
		}
	}
	replace("service")
	servers := []*server{k.start(reference(t), file, nil), k.start(target(t), file, nil)}
	k.newServiceKey("later")
	for _, srv := range servers {
		if got := answer(t, srv, k.token(realm, zkPrincipal, 0)); !strings.HasPrefix(got, "code -115 ") {
			t.Errorf("%s with an old keytab: %s", srv.kind, got)
		}
	}
	replace("later")
	for _, srv := range servers {
		err := srv.waitFor("taking tickets for the new key", func() bool {
			return answer(t, srv, k.token(realm, zkPrincipal, 0)) == "token"
		})
		if err != nil {
			t.Errorf("%s: %v", srv.kind, err)
		}
	}
}

// TestKerberosTakeover takes an ensemble over whose servers log in to each other by Kerberos. So do the
// mirrors, with the keys of Apache's servers.
func TestKerberosTakeover(t *testing.T) {
	k := startKerberos(t)
	t.Setenv("KRB5_CONFIG", k.conf) // of the mirrors
	keys := k.keytab("quorum")
	const server, learner = "zkquorum/localhost", "learner/127.0.0.1"
	k.run("addprinc -randkey "+server+"\naddprinc -randkey "+learner+"\nktadd -k "+keys+" "+server+" "+learner+"\n", kadmin, "-r", realm)
	section := func(name, principal string) string {
		return fmt.Sprintf("%s {\n  com.sun.security.auth.module.Krb5LoginModule required\n"+
			"  useKeyTab=true storeKey=true useTicketCache=false keyTab=%q principal=\"%s@%s\";\n};\n", name, keys, principal, realm)
	}
	x := &takeover{T: t, r: rand.New(rand.NewPCG(1, 1)), kills: *fullFlag,
		jaas:  k.write("quorum.jaas", section("QuorumServer", server)+section("QuorumLearner", learner)),
		props: map[string]string{"java.security.krb5.conf": k.conf}}
	t.Logf("no server for %v", x.run(reference(t)))
}
