//go:build compat

package compat

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/client"
)

// TestAudit does the same operations on Apache's servers and on the target, and compares
// their audit logs.
func TestAudit(t *testing.T) {
	passed, failed := 0, 0
	for reference, known := range map[kind]string{apache: auditDifferences38, apache39: auditDifferences} {
		ok := t.Run(string(reference), func(t *testing.T) {
			if target(t) != zkd {
				return // it has nothing to be compared with
			}
			want, got := auditOf(t, reference), auditOf(t, zkd)
			if diff := diffLines(want, got); diff != known {
				t.Errorf("the audit logs differ in\n%swant\n%s", diff, known)
			}
		})
		if ok {
			passed++
		} else {
			failed++
		}
	}
	summary(t, t.Name(), passed, failed)
}

// auditDifferences are those that docs/compat.md describes: "-" is Apache's. Of two creates of
// one znode in a multi, Apache shows the kind of the last one.
const auditDifferences = `  INFO session=first user=127.0.0.1 ip=127.0.0.1 operation=setAcl znode=/c acl=ip:127.0.0.1:cdrwa result=success
- INFO session=first user=127.0.0.1 ip=127.0.0.1 operation=create znode=/m znode_type=ephemeral result=success
+ INFO session=first user=127.0.0.1 ip=127.0.0.1 operation=create znode=/m znode_type=persistent result=success
  INFO session=first user=127.0.0.1 ip=127.0.0.1 operation=create znode=/m znode_type=ephemeral result=success
- ERROR session=first user=127.0.0.1 ip=127.0.0.1 operation=multiOperation result=failure
- ERROR session=first user=127.0.0.1 ip=127.0.0.1 operation=reconfig result=failure
+ ERROR session=first user=127.0.0.1 ip=127.0.0.1 operation=multiOperation znode=/none result=failure
+ ERROR session=first user=127.0.0.1 ip=127.0.0.1 operation=reconfig value=joining server.9=127.0.0.1:1:2;3 result=failure
+ INFO session=second user=127.0.0.1,bob ip=127.0.0.1 operation=addAuth scheme=digest result=success
+ INFO session=second user=127.0.0.1,ann,bob ip=127.0.0.1 operation=addAuth scheme=digest result=success
  INFO session=first user=127.0.0.1 ip=127.0.0.1 operation=delete znode=/b result=success
- ERROR session=second user=127.0.0.1,ann,bob ip=127.0.0.1 operation=setAcl znode=/b acl=digest:bob:lK75jTNcA+U9vtVEw5vB51mj/w4=:cdrwaauth::r result=failure
+ ERROR session=second user=127.0.0.1,ann,bob ip=127.0.0.1 operation=setAcl znode=/b acl=digest:bob:x:cdrwa,auth::r result=failure
`

// auditDifferences38 are those from Apache 3.8, whose log does not have the creation of nodes with a
// time to live.
const auditDifferences38 = `  INFO session=first user=127.0.0.1 ip=127.0.0.1 operation=create znode=/c znode_type=container result=success
+ INFO session=first user=127.0.0.1 ip=127.0.0.1 operation=create znode=/ttl znode_type=persistent_with_ttl result=success
` + auditDifferences

// auditEntry finds an entry in the logs of both servers: behind the name of the logger.
var auditEntry = regexp.MustCompile(`^.*?(?:Slf4jAuditLogger - |\taudit\t)`)

var userField = regexp.MustCompile(`user=[^\t]*`)

// auditOf does the operations on a fresh server, stops it, and returns the entries, with
// names for the sessions.
func auditOf(t *testing.T, k kind) (entries []string) {
	srv := start(t, k, config{lines: []string{"audit.enable=true"}})
	first, second := auditedOperations(t, srv.addr)
	if err := srv.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-srv.exited
	log, err := os.ReadFile(srv.logFile())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		head := auditEntry.FindString(line)
		if head == "" {
			continue
		}
		entry := strings.TrimSuffix(line[len(head):], "\n")
		level := "INFO "
		if strings.Contains(head, "ERROR") {
			level = "ERROR "
		}
		entry = strings.ReplaceAll(entry, "session="+first.String()+"\t", "session=first\t")
		entry = strings.ReplaceAll(entry, "session="+second.String()+"\t", "session=second\t")
		entry = userField.ReplaceAllStringFunc(entry, func(field string) string {
			names := strings.Split(strings.TrimPrefix(field, "user="), ",")
			slices.Sort(names) // Apache's have the order of a hash table
			return "user=" + strings.Join(names, ",")
		})
		entries = append(entries, level+strings.ReplaceAll(entry, "\t", " "))
	}
	return entries
}

// auditedOperations does the operations in two sessions, whose ids it returns.
func auditedOperations(t *testing.T, addr string) (first, second client.SessionID) {
	ctx := t.Context()
	// The outcome is what the log has to tell; both servers agree on it (TestDifferential).
	ignore := func(any, error) {}
	open := client.CreateOptions{}
	mode := func(m client.CreateMode) client.CreateOptions { return client.CreateOptions{Mode: m} }
	world := func(perms client.Perms) []client.ACL {
		return []client.ACL{{Perms: perms, ID: client.ID{Scheme: "world", ID: "anyone"}}}
	}

	c, err := dialClient(t, addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first = c.Session().ID()
	ignore(c.Create(ctx, "/a", []byte("data"), open))
	ignore(c.Create(ctx, "/a", nil, open))
	ignore(c.Create(ctx, "/none/a", nil, open))
	ignore(c.Create(ctx, "/a/s", nil, mode(client.PersistentSequential)))
	ignore(c.Create(ctx, "/e", nil, mode(client.Ephemeral)))
	ignore(c.Create(ctx, "/a/t", nil, mode(client.EphemeralSequential)))
	ignore(c.Create(ctx, "/c", nil, mode(client.Container)))
	ignore(c.Create(ctx, "/ttl", nil, client.CreateOptions{Mode: client.PersistentTTL, TTL: 1 << 40}))
	ignore(c.Create(ctx, "/Жук é", nil, open))
	ignore(c.Set(ctx, "/a", []byte("more"), -1))
	ignore(c.Set(ctx, "/a", nil, 99))
	ignore(c.Set(ctx, "/none", nil, -1))
	ignore(nil, c.Delete(ctx, "/a", -1))
	ignore(nil, c.Delete(ctx, "/none", -1))
	ignore(nil, c.Delete(ctx, "/ttl", -1))
	ignore(c.Get(ctx, "/a"))
	ignore(c.Children(ctx, "/none"))
	ignore(nil, c.Sync(ctx, "/"))
	ignore(c.SetACL(ctx, "/c", world(client.PermRead|client.PermAdmin), -1))
	ignore(c.SetACL(ctx, "/none", world(client.PermAll), -1))
	ignore(c.SetACL(ctx, "/c", []client.ACL{{Perms: client.PermAll, ID: client.ID{Scheme: "ip", ID: "127.0.0.1"}}}, -1))
	ignore(c.Multi(ctx, client.CreateOp("/m", nil, open), client.CheckOp("/m", 0), client.SetOp("/m", nil, 0), client.DeleteOp("/m", 1),
		client.CreateOp("/m", nil, mode(client.Ephemeral))))
	ignore(c.Multi(ctx, client.SetOp("/a", nil, -1), client.DeleteOp("/none", -1), client.DeleteOp("/c", -1)))
	ignore(c.Multi(ctx, client.CheckOp("/a", -1)))
	ignore(c.Ensemble().Reconfig(ctx, client.Members{Joining: "server.9=127.0.0.1:1:2;3"}, -1))

	two, err := dialClient(t, addr, client.Options{Auth: []client.Auth{{Scheme: "digest", Data: []byte("bob:pw")}, {Scheme: "digest", Data: []byte("ann:pw")}}})
	if err != nil {
		t.Fatal(err)
	}
	second = two.Session().ID()
	ignore(two.Create(ctx, "/b", nil, client.CreateOptions{ACL: []client.ACL{{Perms: client.PermAll, ID: client.ID{Scheme: "auth"}}}}))
	ignore(c.Set(ctx, "/b", nil, -1)) // NoAuth
	ignore(nil, c.Delete(ctx, "/b", -1))
	ignore(two.SetACL(ctx, "/b", []client.ACL{{Perms: client.PermAll, ID: client.ID{Scheme: "digest", ID: "bob:" + superDigest[6:]}},
		{Perms: client.PermRead, ID: client.ID{Scheme: "auth"}}}, -1))
	ignore(nil, c.Close(ctx))
	ignore(nil, two.Close(ctx))
	return first, second
}
