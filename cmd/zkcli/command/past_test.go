package command

import (
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// superHash is that of super:secret.
const superHash = "lK75jTNcA+U9vtVEw5vB51mj/w4="

// atServer runs zkcli with a server, and returns what it prints.
func atServer(t *testing.T, s *zktest.Server, args ...string) (out, errOut string, code int) {
	t.Helper()
	return run(t, t.Context(), nil, append([]string{"-server", s.ConnectString()}, args...)...)
}

func TestMoments(t *testing.T) {
	c := &Call{Command: &Command{Name: "get"}}
	at := time.Date(2026, 11, 22, 14, 5, 0, 0, time.UTC)
	for text, want := range map[string]client.Moment{
		"10m": {Ago: 10 * time.Minute}, "1.5h": {Ago: 90 * time.Minute}, "2d": {Ago: 48 * time.Hour}, "0x100000002": {Zxid: 0x100000002}, "2026-11-22T14:05:00Z": {Time: at},
	} {
		if got, err := c.moment("at", text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "10", "-10m", "0s", "-1d", "99999999999d", "0x", "0x0", "0x-1", "0xfffffffffffffffff", "yesterday", "2026-11-22"} {
		if got, err := c.moment("at", text); err == nil || !strings.Contains(err.Error(), "--at: ") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestReadsOfThePast(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	create(t, c, "/app", "one")
	create(t, c, "/app/b", "")
	create(t, c, "/app/b/c", "deep")
	acl := []client.ACL{{Perms: client.PermAll, ID: client.ID{Scheme: "world", ID: "anyone"}}}
	created, err := c.Create(t.Context(), "/app/a", nil, client.CreateOptions{ACL: acl, Stat: true})
	if err != nil {
		t.Fatal(err)
	}
	then := created.Stat.Czxid.String()
	if _, err := c.Set(t.Context(), "/app", []byte("two"), client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/app/a", "/app/b/c", "/app/b"} {
		if err := c.Delete(t.Context(), path, client.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		line, out, err string
		code           int
	}{
		{"get --at " + then + " /app", "one\n", "as of zxid " + then, 0},
		{"get --at 1ms /app", "two\n", "as of zxid ", 0},
		{"get /app", "two\n", "", 0},
		{"stat -o raw --at " + then + " /app", "", "numChildren = 2", -1},
		{"ls --at " + then + " /app", "[a, b]\n", "", 0},
		{"ls -R --at " + then + " /app", "/app\n/app/a\n/app/b\n/app/b/c\n", "", 0},
		{"getAcl -o raw --at " + then + " /app/a", "world:anyone:cdrwa\n", "", 0},
		{"tree -o raw --at " + then + " /app", "/app\n/app/a\n/app/b\n/app/b/c\n", "", 0},
		{"tree -L 1 -o raw --at " + then + " /app", "/app\n/app/a\n/app/b\n", "", 0},
		{"get --at " + then + " /none", "", "Node does not exist: /none", exitNoNode},
		{"ls --at " + then + " /none", "", "Node does not exist: /none", exitNoNode},
		{"tree --at " + then + " /none", "", "Node does not exist: /none", exitNoNode},
		{"get --at 0x7fffffffffffff /app", "", "is not reached: this server is at ", exitUsage},
		{"get --at 2100-01-01T00:00:00Z /app", "", "is in the future", exitUsage},
		{"get --at 90d /app", "", "before the first transaction, of 20", exitUsage},
		{"get --at 1m /zookeeper/config", "", "belongs to the servers", exitUsage},
		{"get -w --at 1m /app", "", "leave out -w", exitUsage},
		{"get --at noon /app", "", "is no moment", exitUsage},
	} {
		out, errOut, code := atServer(t, s, strings.Fields(tt.line)...)
		if tt.code == -1 {
			if !strings.Contains(out, tt.err) {
				t.Errorf("%s: %q", tt.line, out)
			}
			continue
		}
		if out != tt.out || code != tt.code || !strings.Contains(errOut, tt.err) {
			t.Errorf("%s: %q, %q, exit %d; want %q, %q, %d", tt.line, out, errOut, code, tt.out, tt.err, tt.code)
		}
	}
}

// TestHistoryOfAllServers changes a node at each server of an ensemble: each knows the author of one change.
func TestHistoryOfAllServers(t *testing.T) {
	e := zktest.StartEnsemble(t, 3, zktest.Config("audit.enable=true", "DigestAuthenticationProvider.superDigest=super:"+superHash))
	addrs := strings.Split(e.ConnectString(), ",")
	for i, addr := range addrs {
		for _, line := range []string{"create /app x", "set /app y"}[min(i, 1):] {
			if out, errOut, code := run(t, t.Context(), nil, append([]string{"-server", addr, "--auth", "digest:bob:secret"}, strings.Fields(line)...)...); code != 0 {
				t.Fatalf("%s: %s%s", line, out, errOut)
			}
		}
	}
	for _, addr := range addrs { // each has all
		if out, errOut, code := run(t, t.Context(), nil, "-server", addr, "sync", "/app"); code != 0 {
			t.Fatalf("sync: %s%s", out, errOut)
		}
	}
	for flag, want := range map[string]int{"": 2, " --who": 4} {
		out, errOut, code := run(t, t.Context(), nil, strings.Fields("-server "+e.ConnectString()+" --auth digest:super:secret history"+flag+" /app")...)
		if code != 0 || strings.Count(out, "\n") != 4 || strings.Count(out, "by digest:bob at 127.0.0.1") > want || flag != "" && strings.Count(out, "by digest:bob at 127.0.0.1") != want {
			t.Errorf("history%s: exit %d, %s%s", flag, code, out, errOut)
		}
	}
}

// TestMistakeIsUndone has somebody delete and change nodes by mistake; history says who, diff what, and restore brings it back.
func TestMistakeIsUndone(t *testing.T) {
	s := zktest.Start(t, zktest.Config("audit.enable=true", "DigestAuthenticationProvider.superDigest=super:"+superHash))
	c := s.Client(t)
	create(t, c, "/app", "one")
	create(t, c, "/app/a", "kept")
	create(t, c, "/app/b", "lost")
	found, err := c.Exists(t.Context(), "/app/b")
	if err != nil {
		t.Fatal(err)
	}
	then := found.Stat.Czxid.String()
	bob := []string{"--auth", "digest:bob:secret"}
	for _, line := range []string{"delete /app/b", "set /app two", "create /app/new x"} {
		if out, errOut, code := atServer(t, s, append(bob, strings.Fields(line)...)...); code != 0 {
			t.Fatalf("%s: %s%s", line, out, errOut)
		}
	}
	for _, tt := range []struct {
		line string
		want []string // in what is printed, in this order
		code int
	}{
		{"history -R -d /app", []string{"create /app  3 bytes  session", "create /app/b  4 bytes", "delete /app/b  it had 4 bytes", "set /app  3 bytes, before 3, version 1", `- "one"`, `+ "two"`, "create /app/new", "as far as this server knows"}, 0},
		{"--auth digest:super:secret history /app/b", []string{"delete /app/b  it had 4 bytes  by digest:bob at 127.0.0.1  session 0x"}, 0},
		{"history -n 1 /app", []string{"set /app", "for older ones: --before 0x"}, 0},
		{"history -o json -d --before " + then + " /app", []string{`"op":"create","path":"/app","bytes":3,"version":0,"after":{"data":"one","encoding":"utf-8"}}`}, 0},
		{"diff --from " + then + " /app", []string{"changed /app  data, 3 B before, 3 B after", "deleted /app/b  4 B", "created /app/new  1 B"}, 1},
		{"diff -d --from " + then + " /app", []string{`changed /app  data "one" | "two"`, `deleted /app/b  4 B: "lost"`}, 1},
		{"diff --from " + then + " --to " + then + " /app", nil, 0},
		{"diff -q --from " + then + " --to 1ms /app", nil, 1},
		{"diff --from " + then + " /app/a", nil, 0},
		{"diff --from " + then + " /none", nil, 0},
		{"restore --dry-run --at " + then + " /app", []string{"zxid " + then, `change /app: data "one" | "two"`, `create /app/b: "lost"`, "delete /app/new", "would be: 1 created, 1 changed, 1 deleted"}, 0},
		{"restore --at " + then + " /app", []string{"If that is meant, say --yes"}, exitUsage},
		{"restore --yes --zxid " + then + " /app", []string{"1 created, 1 changed, 1 deleted"}, 0},
		{"diff --from " + then + " /app", nil, 0},
		{"restore --yes --at 1ms /app", []string{"nothing to change"}, 0},
		{"restore --yes --at " + then + " /none", []string{"there was no /none at zxid "}, exitError},
		{"restore --yes --at 90d /app", []string{"before the first transaction"}, exitUsage},
		{"restore /app", []string{"--at is missing"}, exitUsage},
		{"restore --at 1m --zxid 1 /app", []string{"not both"}, exitUsage},
		{"diff /app", []string{"B is missing"}, exitUsage},
		{"diff --to 1m /app", []string{"need --from"}, exitUsage},
		{"diff --from 1m /app /b", []string{"for one path"}, exitUsage},
		{"history --before 10m /app", []string{"--before is a zxid"}, exitUsage},
		{"history -n 0 /app", []string{"1 to 10000"}, exitUsage},
	} {
		out, errOut, code := atServer(t, s, strings.Fields(tt.line)...)
		rest, ok := out+errOut, true
		for _, want := range tt.want {
			if _, rest, ok = strings.Cut(rest, want); !ok {
				t.Errorf("%s: no %q in its place in\n%s%s", tt.line, want, out, errOut)
				break
			}
		}
		if code != tt.code {
			t.Errorf("%s: exit %d, want %d\n%s%s", tt.line, code, tt.code, out, errOut)
		}
	}
	node, err := c.Get(t.Context(), "/app/b")
	if err != nil || string(node.Data) != "lost" {
		t.Errorf("/app/b: %q, %v", node.Data, err)
	}
}

// TestRestoreNeedsTheHashes brings back a node whose ACL the server shows without its hash, and does not for somebody else.
func TestRestoreNeedsTheHashes(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	if err := c.Session().AddAuth(t.Context(), "digest", []byte("ann:secret")); err != nil {
		t.Fatal(err)
	}
	create(t, c, "/app", "")
	access := []client.ACL{{Perms: client.PermRead, ID: client.ID{Scheme: "world", ID: "anyone"}}, {Perms: client.PermAll, ID: client.ID{Scheme: "auth"}}}
	made, err := c.Create(t.Context(), "/app/hers", []byte("x"), client.CreateOptions{ACL: access, Stat: true})
	if err == nil {
		err = c.Delete(t.Context(), "/app/hers", client.AnyVersion)
	}
	if err != nil {
		t.Fatal(err)
	}
	line := []string{"restore", "--yes", "--at", made.Stat.Czxid.String(), "/app"}
	if _, errOut, code := atServer(t, s, line...); code != exitError || !strings.Contains(errOut, "the ACL of /app/hers without its hashes") {
		t.Errorf("%q, exit %d", errOut, code)
	}
	if out, errOut, code := atServer(t, s, append([]string{"--auth", "digest:ann:secret"}, line...)...); code != 0 || !strings.Contains(out, "1 created") {
		t.Errorf("%q, %q, exit %d", out, errOut, code)
	}
	got, err := c.GetACL(t.Context(), "/app/hers")
	if err != nil || len(got.ACL) != 2 || strings.HasSuffix(got.ACL[1].ID.ID, ":x") {
		t.Errorf("%v, %v", got.ACL, err)
	}
}
