package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/audit"
)

const auditFile = "/log/audit.log"

var audited = []string{"audit.enable=true", "zkd.audit.file=" + auditFile,
	"DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4="} // of super:secret

// auditLines returns the lines of the audit log, without their times, and with names for
// the sessions. Those about the start and the stop of the server are left out.
func auditLines(t testing.TB, fsys vfs.FS, names map[jute.SessionID]string) (lines []string) {
	t.Helper()
	text, err := vfs.ReadFile(fsys, auditFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line, complete := strings.CutSuffix(line, "\n")
		head, entry, ok := strings.Cut(line, "\taudit\t")
		if failed := strings.HasSuffix(line, "failure"); !complete || !ok || failed != strings.HasSuffix(head, "ERROR") {
			t.Errorf("line %q", line)
		}
		if strings.Contains(entry, "operation=server") {
			continue
		}
		for id, name := range names {
			entry = strings.ReplaceAll(entry, "session="+id.String()+"\t", "session="+name+"\t")
		}
		lines = append(lines, strings.ReplaceAll(entry, "\t", " "))
	}
	return lines
}

func equalLines(t testing.TB, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAudit has an entry of each kind.
func TestAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, append(audited, "zkd.audit.reads=refused")...)
		a, b := s.connect(t), s.connect(t)
		a.create("/a", "data that is a secret")
		a.call(jute.OpCreate, create("/a", "", 0))
		a.ok(jute.OpCreate2, create("/a/s-", "", jute.ModePersistentSequential))
		a.ok(jute.OpCreateTTL, &jute.CreateTTLRequest{CreateRequest: *create("/ttl", "", jute.ModePersistentTTL), TTL: 1000})
		a.ok(jute.OpCreateContainer, create("/c", "", jute.ModeContainer))
		a.call(jute.OpCreate, create("/bad\tresult=success\npath", "", 0))
		a.call(jute.OpCreate, create("/mode", "", 99))
		a.call(jute.OpSetData, bytesRecord("\x00\x00\x00\x02/"))
		a.set("/a", "data that is a secret")
		a.call(jute.OpSetData, &jute.SetDataRequest{Path: "/a", Version: 9})
		a.ok(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{
			{Type: jute.OpCreate, Path: "/m-", ACL: openACL, Mode: jute.ModeEphemeralSequential},
			{Type: jute.OpCheck, Path: "/a", Version: 1},
			{Type: jute.OpSetData, Path: "/a", Version: 1},
			{Type: jute.OpDelete, Path: "/ttl", Version: -1},
		}})
		a.call(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{
			{Type: jute.OpSetData, Path: "/a", Version: -1}, {Type: jute.OpDelete, Path: "/none", Version: -1}, {Type: jute.OpDelete, Path: "/a", Version: -1}}})
		a.ok(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{
			{Type: jute.OpCreateOrSet, Path: "/t", ACL: openACL}, {Type: jute.OpCreateOrSet, Path: "/t", ACL: openACL},
			{Type: jute.OpCreate, Path: "/t/x", ACL: openACL}, {Type: jute.OpDeleteTree, Path: "/t", Version: -1},
			{Type: jute.OpCheckAbsent, Path: "/t"}, {Type: jute.OpCreate, Path: "/t2", ACL: openACL},
		}})
		a.call(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{{Type: jute.OpCheckAbsent, Path: "/t"}, {Type: jute.OpDeleteTree, Path: "/t"}}})
		b.auth("bob:hunter2")
		b.ok(jute.OpSetACL, &jute.SetACLRequest{Path: "/a", ACL: []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: "auth", ID: "bob:hunter2"}}}, Version: -1})
		a.call(jute.OpSetData, set("/a", "x"))
		a.call(jute.OpGetData, get("/a", false))
		a.call(jute.OpMultiRead, &jute.MultiRequest{Ops: []jute.MultiOp{{Type: jute.OpGetData, Path: "/"}, {Type: jute.OpGetChildren, Path: "/a"}}})
		a.ok(jute.OpExists, get("/", false))
		a.call(jute.OpReconfig, &jute.ReconfigRequest{Joining: "server.9=x:1:2;3", ConfigID: -1})
		a.call(jute.OpDrain, &jute.DrainRequest{Percent: 200})
		b.auth("super:secret")
		b.call(jute.OpAuth, &jute.AuthRequest{Scheme: "nis", Auth: []byte("bob:hunter2")})
		b.eof("authentication that failed")
		stranger := s.dial(t, dialOptions{})
		stranger.establish(&jute.ConnectRequest{TimeoutMs: 10_000, SessionID: a.session, Password: make([]byte, 16)})
		a.ok(jute.OpCloseSession, nil)
		a.eof("closed session")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		equalLines(t, auditLines(t, s.opts.FS, map[jute.SessionID]string{a.session: "A", b.session: "B"}), strings.Split(strings.ReplaceAll(
			`session=A user=10.0.0.2 ip=10.0.0.2 operation=create znode=/a znode_type=persistent result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=create znode=/a znode_type=persistent result=failure
session=A user=10.0.0.2 ip=10.0.0.2 operation=create znode=/a/s-0000000000 znode_type=persistent_sequential result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=create znode=/ttl znode_type=persistent_with_ttl result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=create znode=/c znode_type=container result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=create znode=/bad\tresult=success\npath znode_type=persistent result=failure
session=A user=10.0.0.2 ip=10.0.0.2 operation=create znode=/mode result=failure
session=A user=10.0.0.2 ip=10.0.0.2 operation=setData result=failure
session=A user=10.0.0.2 ip=10.0.0.2 operation=setData znode=/a result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=setData znode=/a result=failure
session=A user=10.0.0.2 ip=10.0.0.2 operation=create znode=/m-0000000003 znode_type=ephemeral_sequential result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=setData znode=/a result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=delete znode=/ttl result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=multiOperation znode=/none result=failure
session=A user=10.0.0.2 ip=10.0.0.2 operation=create znode=/t znode_type=persistent result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=setData znode=/t result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=create znode=/t/x znode_type=persistent result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=delete znode=/t/x result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=delete znode=/t result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=create znode=/t2 znode_type=persistent result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=multiOperation znode=/t result=failure
session=B user=10.0.0.2,bob ip=10.0.0.2 operation=addAuth scheme=digest result=success
session=B user=10.0.0.2,bob ip=10.0.0.2 operation=setAcl znode=/a acl=auth:bob:x:cdrwa result=success
session=A user=10.0.0.2 ip=10.0.0.2 operation=setData znode=/a result=failure
session=A user=10.0.0.2 ip=10.0.0.2 operation=getData znode=/a result=failure
session=A user=10.0.0.2 ip=10.0.0.2 operation=getChildren znode=/a result=failure
session=A user=10.0.0.2 ip=10.0.0.2 operation=reconfig value=joining server.9=x:1:2;3 result=failure
session=A user=10.0.0.2 ip=10.0.0.2 operation=drain value=200% result=failure
session=B user=10.0.0.2,bob,super ip=10.0.0.2 operation=addAuth scheme=digest result=success
session=B user=10.0.0.2,bob,super ip=10.0.0.2 operation=addAuth scheme=nis result=failure
session=A user=10.0.0.2 ip=10.0.0.2 operation=resumeSession result=failure
session=A user=USER operation=ephemeralZNodeDeletionOnSessionCloseOrExpire znode=/m-0000000003 result=success`, "USER", audit.SystemUser()), "\n"))
		text, _ := vfs.ReadFile(s.opts.FS, auditFile)
		if strings.Contains(string(text), "hunter2") || strings.Contains(string(text), "secret") {
			t.Errorf("a secret in\n%s", text)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if !strings.HasSuffix(lines[0], "user="+audit.SystemUser()+"\toperation=serverStart\tresult=success") ||
			!strings.HasSuffix(lines[len(lines)-1], "user="+audit.SystemUser()+"\toperation=serverStop\tresult=invoked") {
			t.Errorf("start and stop: %s\n%s", lines[0], lines[len(lines)-1])
		}
	})
}

// TestAuditOfConfigure checks that the audit log has which key was set to what, and how that ended, also if
// the request turns the audit on or off, and that it has no secret.
func TestAuditOfConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := append([]string{superIs}, audited...)
		s := startConfigurable(t, &file)
		guest, c := s.connect(t), s.super(t)
		guest.call(jute.OpConfigure, &jute.ConfigureRequest{Action: jute.ConfigureSet, Key: "maxCnxns", Value: "1"})
		c.configure(jute.ConfigureShow, "", "")
		c.configure(jute.ConfigureSet, "maxCnxns", "60\toperation=create")
		c.configure(jute.ConfigureSet, "maxCnxns", "60")
		c.configure(jute.ConfigureUnset, "maxCnxns", "")
		c.configure(jute.ConfigureSet, "DigestAuthenticationProvider.superDigest", "super:hunter2")
		c.configure(jute.ConfigureSet, "audit.enable", "false")
		c.configure(jute.ConfigureSet, "maxCnxns", "70")
		c.configure(jute.ConfigureSet, "audit.enable", "true")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, line := range auditLines(t, s.opts.FS, map[jute.SessionID]string{guest.session: "GUEST", c.session: "C"}) {
			if strings.Contains(line, "operation=configure") {
				got = append(got, line)
			}
		}
		const of, by = "session=GUEST user=10.0.0.2 ip=10.0.0.2 operation=configure ", "session=C user=10.0.0.2,super ip=10.0.0.2 operation=configure "
		equalLines(t, got, []string{
			of + "key=maxCnxns value=1 result=failure",
			by + "result=success",
			by + `key=maxCnxns value=60\toperation=create result=failure`,
			by + "key=maxCnxns value=60 result=success",
			by + "key=maxCnxns result=success",
			by + "key=DigestAuthenticationProvider.superDigest result=failure",
			by + "key=audit.enable value=false result=success",
			by + "key=audit.enable value=true result=success",
		})
	})
}

// auditPlan generates requests.
type auditPlan struct{ rng *rand.Rand }

func (p *auditPlan) path() string {
	return []string{"/a", "/b", "/a/x", "/a/y", "/closed", "/closed/x", "/no/parent", "bad", "/b\n"}[p.rng.IntN(9)]
}

// auditWrite is a request, and what the log says of it before its outcome.
type auditWrite struct {
	xid  int32
	op   jute.OpCode
	body record
	what string
}

// write makes a random write.
func (p *auditPlan) write() auditWrite {
	path := p.path()
	acl, perms := openACL, "cdrwa"
	if path == "/closed" {
		acl, perms = []jute.ACL{{Perms: jute.PermRead, ID: jute.WorldAnyone}}, "r"
	}
	znode := " znode=" + shownPath(path)
	switch p.rng.IntN(6) {
	case 0:
		mode := jute.CreateMode(p.rng.IntN(4))
		return auditWrite{op: jute.OpCreate2, body: &jute.CreateRequest{Path: path, ACL: acl, Mode: mode}, what: "operation=create" + znode + " znode_type=" + audit.ModeName(mode)}
	case 1:
		return auditWrite{op: jute.OpCreate, body: &jute.CreateRequest{Path: path, ACL: acl}, what: "operation=create" + znode + " znode_type=persistent"}
	case 2:
		return auditWrite{op: jute.OpDelete, body: del(path), what: "operation=delete" + znode}
	case 3:
		return auditWrite{op: jute.OpSetACL, body: &jute.SetACLRequest{Path: path, ACL: acl, Version: -1}, what: "operation=setAcl" + znode + " acl=world:anyone:" + perms}
	case 4:
		ops := []jute.MultiOp{{Type: jute.OpSetData, Path: path, Version: -1}, {Type: jute.OpDelete, Path: p.path(), Version: -1}}
		return auditWrite{op: jute.OpMulti, body: &jute.MultiRequest{Ops: ops}}
	}
	return auditWrite{op: jute.OpSetData, body: &jute.SetDataRequest{Path: path, Version: int32(p.rng.IntN(3)) - 1}, what: "operation=setData" + znode}
}

func shownPath(path string) string { return strings.ReplaceAll(path, "\n", `\n`) }

// linesOf returns what the log must say of an answered write.
func linesOf(t testing.TB, w auditWrite, r reply) []string {
	d := jute.NewDecoder(r.body)
	switch {
	case r.Err != 0:
		return []string{w.what + " result=failure"}
	case w.op == jute.OpCreate, w.op == jute.OpCreate2:
		_, kind, _ := strings.Cut(w.what, " znode_type=")
		return []string{"operation=create znode=" + d.String() + " znode_type=" + kind + " result=success"}
	case w.op != jute.OpMulti:
		return []string{w.what + " result=success"}
	}
	ops := w.body.(*jute.MultiRequest).Ops
	var m jute.MultiResponse
	m.Decode(&d)
	if d.Err() != nil || len(m.Results) != len(ops) {
		t.Fatalf("answer to a multi: %v, %v", d.Err(), m.Results)
	}
	for i, res := range m.Results {
		if res.Err != 0 {
			return []string{"operation=multiOperation znode=" + shownPath(ops[i].Path) + " result=failure"}
		}
	}
	return []string{"operation=setData znode=" + shownPath(ops[0].Path) + " result=success",
		"operation=delete znode=" + shownPath(ops[1].Path) + " result=success"}
}

// TestAuditIsComplete makes random writes with several clients, some of which hang up without
// reading the answers, and compares the log with the answers: each answered write is in it
// once, in the order of its session, with its outcome.
func TestAuditIsComplete(t *testing.T) {
	seed := seeds.First(t)
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, audited...)
		p := &auditPlan{rand.New(rand.NewPCG(seed, 0))}
		want := map[string][]string{} // by session
		hungUp := map[string]int{}    // writes that were sent and not answered
		for range 60 {
			c := s.connect(t)
			var list []auditWrite
			for range p.rng.IntN(40) {
				w := p.write()
				w.xid = c.send(w.op, w.body)
				list = append(list, w)
			}
			if p.rng.IntN(3) == 0 {
				hungUp[c.session.String()] = len(list)
				c.nc.Close()
				continue
			}
			for _, w := range list {
				want[c.session.String()] = append(want[c.session.String()], linesOf(t, w, c.await(w.xid))...)
			}
		}
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{}
		unheard := 0
		for _, line := range auditLines(t, s.opts.FS, nil) {
			id, rest, _ := strings.Cut(strings.TrimPrefix(line, "session="), " ")
			if strings.Contains(line, audit.DeleteEphemeral) {
				continue
			}
			entry, known := strings.CutPrefix(rest, "user=10.0.0.2 ip=10.0.0.2 ")
			if !known {
				t.Errorf("%s: the user is missing", line)
			}
			got[id] = append(got[id], entry)
			if hungUp[id] > 0 {
				unheard++
			}
		}
		for id := range want {
			equalLines(t, got[id], want[id])
		}
		if unheard == 0 {
			t.Error("no write of a client that has hung up is in the log")
		}
	})
}

// TestAuditBeforeAnswer stops the disk of the audit log: no audited operation is answered, and
// clients that make none are not disturbed.
func TestAuditBeforeAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New(1)
		s := startOn(t, fsys, "/data", audited...)
		a, b := s.connect(t), s.connect(t)
		a.create("/a", "")
		gate := make(chan struct{})
		fsys.SetHook(func(op crashfs.Op) error {
			if op.Name == auditFile && op.Kind == crashfs.OpWrite {
				<-gate
			}
			return nil
		})
		xid := a.send(jute.OpSetData, set("/a", "x"))
		synctest.Wait()
		a.quiet("a write whose entry is not written")
		for data := ""; data != "x"; data, _ = b.get("/a") { // the write has happened
			synctest.Wait()
		}
		b.ping()
		close(gate)
		if r := a.await(xid); r.Err != 0 {
			t.Error(r.Err)
		}
	})
}

// failingAudit returns a hook with which writes to the audit log fail.
func failingAudit(err error) func(crashfs.Op) error {
	return func(op crashfs.Op) error {
		if strings.HasPrefix(op.Name, filepath.Dir(auditFile)) && op.Kind == crashfs.OpWrite {
			return err
		}
		return nil
	}
}

// TestAuditDiskFull checks that a server waits while the disk of its audit log is full, with no client told of an
// operation that has no entry, and that it continues when there is room.
func TestAuditDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New(1)
		s := startOn(t, fsys, "/data", audited...)
		c := s.connect(t)
		c.create("/a", "")
		fsys.SetHook(failingAudit(syscall.ENOSPC))
		xid := c.send(jute.OpSetData, set("/a", "x"))
		time.Sleep(3 * time.Second)
		c.quiet("a write without an entry")
		if text := s.mntr(t)["audit_waits_for"]; !strings.Contains(text, "no space") {
			t.Errorf("the audit log waits for %q", text)
		}
		fsys.SetHook(nil)
		if r := c.await(xid); r.Err != 0 {
			t.Error(r.Err)
		}
		if text, ok := s.mntr(t)["audit_waits_for"]; ok {
			t.Errorf("afterwards the audit log waits for %q", text)
		}
		if n := s.logged.FilterMessageSnippet("the audit log waits").Len(); n != 1 {
			t.Errorf("%d lines say that it waits", n)
		}
	})
}

// TestAuditFails checks that a server ends when its audit log can't be written for a reason that does not pass, with
// no client told of an operation that has no entry.
func TestAuditFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New(1)
		s := startOn(t, fsys, "/data", audited...)
		c := s.connect(t)
		c.create("/a", "")
		fsys.SetHook(failingAudit(syscall.EIO))
		c.send(jute.OpSetData, set("/a", "x"))
		if err := <-s.Failed(); !errors.Is(err, syscall.EIO) {
			t.Errorf("the server ends with %v", err)
		}
		c.eof("a write without an entry")
		fsys.SetHook(nil)
		synctest.Wait()
		var lost []string
		for _, e := range s.logged.FilterMessage("not in the audit log").All() {
			lost = append(lost, fmt.Sprint(e.ContextMap()["entry"]))
		}
		if len(lost) != 1 || !strings.Contains(lost[0], "operation=setData\tznode=/a") {
			t.Errorf("reported as lost: %q", lost)
		}
	})
}

// TestAuditCantStart checks that a server without the audit log that it was asked for does not
// start, and that its directories are free then.
func TestAuditCantStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, kind := range []crashfs.OpKind{crashfs.OpMkdir, crashfs.OpLock, crashfs.OpCreate, crashfs.OpWrite} {
			fsys := crashfs.New(1)
			fsys.SetHook(func(op crashfs.Op) error {
				if strings.HasPrefix(op.Name, filepath.Dir(auditFile)) && op.Kind == kind {
					return syscall.EROFS
				}
				return nil
			})
			s := newTestServer(t, Options{FS: fsys, Config: parseConfig(t, "/data", audited...)})
			if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "audit log") {
				t.Errorf("%s: start: %v", kind, err)
				s.Close()
			}
			fsys.SetHook(nil)
			s = newTestServer(t, Options{FS: fsys, Config: parseConfig(t, "/data", audited...)})
			if err := s.Start(t.Context()); err != nil {
				t.Fatalf("%s: start afterwards: %v", kind, err)
			}
			s.Close()
		}
	})
}

// TestAuditOfEnsemble checks that a write is in the log of the server of its client alone, and
// the ephemerals of an expired session in all.
func TestAuditOfEnsemble(t *testing.T) {
	inBubble(t, 3, audited, func(t *testing.T, e *testEnsemble) {
		e.leader()
		f := e.follower()
		c := e.servers[f].connectFor(t, 2000)
		c.ephemeral("/e")
		c.call(jute.OpDelete, del("/none"))
		c.nc.Close()
		time.Sleep(10 * time.Second)
		e.settled()
		names := map[jute.SessionID]string{c.session: "C"}
		for id, s := range e.servers {
			if s == nil {
				continue
			}
			s.Close()
			want := []string{"session=C user=" + audit.SystemUser() + " operation=" + audit.DeleteEphemeral + " znode=/e result=success"}
			if id == f {
				want = append([]string{
					"session=C user=10.0.0.2 ip=10.0.0.2 operation=create znode=/e znode_type=ephemeral result=success",
					"session=C user=10.0.0.2 ip=10.0.0.2 operation=delete znode=/none result=failure",
				}, want...)
			}
			equalLines(t, auditLines(t, s.opts.FS, names), want)
		}
	})
}

// TestAuditOfTokens has an entry of a token that is good, and one of the same token when it is
// over: it proves nothing then, although the client's connection continues.
func TestAuditOfTokens(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, slices.Concat(audited[:2], i.lines)...)
		c := s.connect(t)
		token := i.token("ann", 5*time.Second)
		for range 2 {
			if code := c.addAuth("jwt", token); code != 0 {
				t.Fatal(code)
			}
			time.Sleep(6 * time.Second)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		equalLines(t, auditLines(t, s.opts.FS, map[jute.SessionID]string{c.session: "C"}), []string{
			"session=C user=10.0.0.2,ann ip=10.0.0.2 operation=addAuth scheme=jwt result=success",
			"session=C user=10.0.0.2 ip=10.0.0.2 operation=addAuth scheme=jwt result=failure",
		})
	})
}
