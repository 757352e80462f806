package command

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// Names of kazoo, Curator and Apache's WriteLock, whose order is that of their
// numbers.
var contenders = []string{
	"f00dfeedf00dfeedf00dfeedf00dfeed__lock__0000000001",
	"_c_0f3c9a52-6b1e-4d0c-9a5e-1f5c8f0a7b11-lock-0000000002",
	"x-72057594037927936-0000000003",
}

func contend(t *testing.T, c *client.Client) {
	t.Helper()
	create(t, c, "/l", "")
	create(t, c, "/l/readme", "")
	for _, i := range []int{2, 0, 1} {
		if _, err := c.Create(t.Context(), "/l/"+contenders[i], []byte{'a' + byte(i)}, client.CreateOptions{Mode: client.Ephemeral}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLockList(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	contend(t, c)
	r := start(t, s.ConnectString(), "-o", "json", "lock", "--list", "/l")
	if code := <-r.code; code != 0 {
		t.Fatalf("exit %d", code)
	}
	session := c.Session().ID()
	for i, name := range contenders {
		var d placeDoc
		line := r.out.await(t, "")
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		if d.Position != i+1 || d.State != placeState(i) || d.Node != name || d.Path != "/l/"+name ||
			d.Session != session.String() || d.Data == nil || *d.Data != string(rune('a'+i)) || d.Since == "" {
			t.Errorf("place %d: %s", i+1, line)
		}
	}
	r = start(t, s.ConnectString(), "lock", "--list", "/l")
	for i, want := range []string{"POSITION STATE NODE SESSION SINCE AGE DATA", "1 holds " + contenders[0] + " " + session.String(), "2 waits", "3 waits"} {
		if got := strings.Join(strings.Fields(r.out.await(t, "")), " "); !strings.HasPrefix(got, want) {
			t.Errorf("line %d: %s", i, got)
		}
	}
}

func TestLockBreak(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	contend(t, c)
	session := c.Session().ID()
	for _, x := range []struct {
		args []string
		code int
		says string
		left []string
	}{
		{[]string{"/l"}, exitUsage, "This deletes /l/" + contenders[0], contenders},
		{[]string{"--yes", "/l", "readme"}, exitNoNode, "readme is not in the queue of /l", contenders},
		{[]string{"--yes", "/none"}, exitNoNode, "Node does not exist: /none", contenders},
		{[]string{"--list", "/l"}, exitUsage, "don't go together", contenders},
		{[]string{"--yes", "/l", contenders[1], "x"}, exitUsage, "one argument too many", contenders},
		{[]string{"--yes", "/l", contenders[1]}, 0, "which waited, of session " + session.String(), []string{contenders[0], contenders[2]}},
		{[]string{"--yes", "/l"}, 0, "deleted /l/" + contenders[0] + ", which held, of session", contenders[2:]},
		{[]string{"--yes", "/l"}, 0, "which held", nil},
		{[]string{"--yes", "/l"}, exitError, "nobody holds /l", nil},
	} {
		r := start(t, s.ConnectString(), append([]string{"lock", "--break"}, x.args...)...)
		if line := r.err.await(t, ""); !strings.Contains(line, x.says) {
			t.Errorf("%q: %s", x.args, line)
		}
		if code := <-r.code; code != x.code {
			t.Errorf("%q: exit %d, want %d", x.args, code, x.code)
		}
		queue, err := places(t.Context(), c, "/l")
		var names []string
		for _, p := range queue {
			names = append(names, p.name)
		}
		if err != nil || !slices.Equal(names, x.left) {
			t.Errorf("%q: left are %q, %v", x.args, names, err)
		}
	}
}

// Between the look and the delete the node goes, or another one takes its name.
func TestLockBreakSparesAnother(t *testing.T) {
	c := zktest.Start(t).Client(t)
	contend(t, c)
	queue, err := places(t.Context(), c, "/l")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), queue[0].Path, client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if err := queue[0].remove(t.Context(), c); !errors.Is(err, client.ErrNoNode) || !strings.Contains(err.Error(), "gone by itself") {
		t.Errorf("a node that is gone: %v", err)
	}
	create(t, c, queue[0].Path, "another")
	if err := queue[0].remove(t.Context(), c); !errors.Is(err, client.ErrBadVersion) {
		t.Errorf("another's node: %v", err)
	}
	if found, err := c.Exists(t.Context(), queue[0].Path); err != nil || !found.Exists {
		t.Errorf("another's node is there: %v, %v", found.Exists, err)
	}
}
