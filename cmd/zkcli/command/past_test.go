package command

import (
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

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
