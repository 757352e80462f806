package command

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

// listed returns the ids and roles that member list shows.
func listed(t *testing.T, env map[string]string) (lines []string) {
	t.Helper()
	out, errOut, code := run(t, t.Context(), env, "-o", "json", "member", "list")
	var doc memberListDoc
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errOut)
	}
	for _, m := range doc.Members {
		lines = append(lines, fmt.Sprint(m.ID, " ", m.Role))
	}
	return lines
}

// An ensemble grows, gets an observer, has a member replaced, and loses its leader.
func TestMember(t *testing.T) {
	e := zktest.StartEnsemble(t, 3, zktest.Spares(2), zktest.Patient(), zktest.Config("reconfigEnabled=true", "skipACL=yes"))
	first := e.At(0).ConnectString() + "," + e.At(1).ConnectString()
	env := map[string]string{envServer: first}
	if want, got := []string{"1 participant", "2 participant", "3 participant"}, listed(t, env); !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}

	// The command waits for the new server.
	r := start(t, first, "member", "add", e.Line(4))
	r.err.await(t, "waiting: server 4")
	e.Restart(4)
	r.err.await(t, "The members are changed: 1, 2, 3, 4; version ")
	if code := <-r.code; code != 0 {
		t.Errorf("add: exit %d", code)
	}

	out, errOut, code := run(t, t.Context(), env, "member", "demote", "--yes", "--json", "3")
	var doc memberDoc
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 || !doc.Changed || doc.Before.Voters != 4 || doc.After.Voters != 3 {
		t.Errorf("demote: exit %d, %v: %s%s", code, err, out, errOut)
	}
	e.Restart(5)
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"demote", "3"}, 0, "Nothing to do: the members are 1, 2, 3 (observer), 4\n"},
		{[]string{"replace", "3", e.Line(5)}, exitUsage, "If that is meant, say --yes"},
		{[]string{"replace", "--yes", "3", e.Line(5)}, 0, "The members are changed: 1, 2, 4, 5 (observer); version "},
		{[]string{"promote", "5"}, 0, "The members are changed: 1, 2, 4, 5; version "},
		{[]string{"remove", "--yes", "3", "5"}, 0, "The members are changed: 1, 2, 4; version "},
		{[]string{"remove", "--yes", "1", "2", "4"}, exitError, "no voter would be left"},
		{[]string{"replace", "9", e.Line(5)}, exitError, "server 9 is not a member"},
		{[]string{"promote", "zk1"}, exitUsage, "is not the id of a server"},
		{[]string{"replace", "1"}, exitUsage, "Usage: member replace ID ID=HOST"},
		{[]string{"shrink"}, exitUsage, `there is no "shrink"`},
		{[]string{"list", "x"}, exitUsage, "list takes no arguments"},
	} {
		_, errOut, code := run(t, t.Context(), env, append([]string{"member"}, x.args...)...)
		if code != x.code || !strings.Contains(errOut, x.says) {
			t.Errorf("%q: exit %d, %s", x.args, code, errOut)
		}
	}
	want := []string{"1 participant", "2 participant", "4 participant"}
	if got := listed(t, env); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMemberWithoutReconfig asks for a change that the servers do not allow: it is refused before anything is waited for.
func TestMemberWithoutReconfig(t *testing.T) {
	e := zktest.StartEnsemble(t, 3, zktest.Config("skipACL=yes"))
	_, errOut, code := run(t, t.Context(), map[string]string{envServer: e.ConnectString()}, "member", "replace", "--yes", "3", "4=127.0.0.1:1:2;3")
	if code != exitError || strings.Contains(errOut, "waiting") || !strings.Contains(errOut, "set reconfigEnabled=true on all of them") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

// The leader that is removed breaks connections. The command looks what became of its request,
// and says that another server takes over.
func TestMemberRemovesTheLeader(t *testing.T) {
	e := zktest.StartEnsemble(t, 3, zktest.Patient(), zktest.Config("reconfigEnabled=true", "skipACL=yes"))
	leader := e.Leader()
	_, errOut, code := run(t, t.Context(), map[string]string{envServer: e.ConnectString()}, "member", "remove", "--yes", fmt.Sprint(leader))
	if code != 0 || !strings.Contains(errOut, " is the leader: another one takes over") || !strings.Contains(errOut, "The members are changed: ") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

// The reply to the change is lost.
func TestMemberAfterALostReply(t *testing.T) {
	e := zktest.StartEnsemble(t, 3, zktest.Patient(), zktest.Config("reconfigEnabled=true", "skipACL=yes"))
	follower := e.Followers()[0]
	cut := e.CutAfter(zktest.Op(jute.OpReconfig))
	_, errOut, code := run(t, t.Context(), map[string]string{envServer: e.ConnectString()}, "member", "demote", "--yes", fmt.Sprint(follower))
	<-cut.Done()
	if code != 0 || !strings.Contains(errOut, "waiting: the connection was lost") || !strings.Contains(errOut, "The members are changed: ") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

// What keeps a change from being made is said, with what to do.
func TestMemberRefused(t *testing.T) {
	off, acl, alone := zktest.StartEnsemble(t, 3), zktest.StartEnsemble(t, 3, zktest.Config("reconfigEnabled=true")), zktest.Start(t)
	for _, x := range []struct {
		proxy *zktest.Proxy
		args  []string
		code  int
		says  string
	}{
		{off.Proxy, []string{"demote", "--yes", "3"}, exitError, "set reconfigEnabled=true on all of them"},
		{acl.Proxy, []string{"demote", "--yes", "3"}, exitAuth, "say --auth digest:super:PASSWORD"},
		{acl.Proxy, []string{"replace", "--yes", "3", "4=127.0.0.1:1:2;127.0.0.1:3"}, exitAuth, "say --auth digest:super:PASSWORD"}, // server 4 does not run
		{acl.Proxy, []string{"demote", "3"}, exitUsage, "Afterwards: 2 of 2 voters up: one more failure loses the quorum.\nmember: nothing was changed. If that is meant, say --yes\n"},
		{alone.Proxy, []string{"list"}, exitError, "this is a single server"},
	} {
		out, errOut, code := run(t, t.Context(), map[string]string{envServer: x.proxy.ConnectString()}, append([]string{"member"}, x.args...)...)
		if code != x.code || !strings.Contains(errOut, x.says) || out != "" {
			t.Errorf("%q: exit %d, %s%s", x.args, code, out, errOut)
		}
	}
}

// An administrator chooses the leader, and moves clients away from a server.
func TestMemberLeaderAndDrain(t *testing.T) {
	e := zktest.StartEnsemble(t, 3, zktest.Patient(), zktest.Config("reconfigEnabled=true", "skipACL=yes"))
	to := e.Followers()[0]
	env := map[string]string{envServer: e.ConnectString()}
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"transfer-leader", fmt.Sprint(to)}, 0, fmt.Sprintf("Server %d leads\n", to)},
		{[]string{"transfer-leader", fmt.Sprint(to)}, 0, fmt.Sprintf("Server %d leads\n", to)},
		{[]string{"transfer-leader", "9"}, exitError, "server 9 is not a member: the members are 1, 2, 3\n"},
		{[]string{"transfer-leader"}, exitUsage, "wrong number of arguments"},
		{[]string{"drain", "--share", "1.01", fmt.Sprint(to)}, exitUsage, "--share is a part of 1, such as 0.3"},
		{[]string{"drain", "--share", "0", fmt.Sprint(to)}, exitUsage, "--share is a part of 1, such as 0.3"},
		{[]string{"drain", "--share", "0.5", "--end", fmt.Sprint(to)}, exitUsage, "nothing to end"},
		{[]string{"drain", "--for", "200h", fmt.Sprint(to)}, exitUsage, "--for is a time from 1s to 168h0m0s"},
		{[]string{"drain", "9"}, exitError, "server 9 is not a member: the members are 1, 2, 3\n"},
		{[]string{"drain", "--end", "9"}, exitError, "server 9 is not a member: the members are 1, 2, 3\n"},
	} {
		_, errOut, code := run(t, t.Context(), env, append([]string{"member"}, x.args...)...)
		if code != x.code || !strings.Contains(errOut, x.says) {
			t.Errorf("%q: exit %d, %s", x.args, code, errOut)
		}
	}
	c, err := client.Connect(t.Context(), e.At(to-1).ConnectString(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	states := c.Session().States(t.Context())
	_, errOut, code := run(t, t.Context(), env, "member", "drain", fmt.Sprint(to))
	if code != 0 || !strings.Contains(errOut, fmt.Sprintf("Server %d has ended ", to)) || !strings.Contains(errOut, "keeps clients away for 10m0s") {
		t.Errorf("drain: exit %d, %s", code, errOut)
	}
	if change := <-states; change.To.Connected() {
		t.Errorf("the client's connection does not end: %v", change.To)
	}
	for id := range int64(3) { // the last one has to stay
		if id++; id != int64(to) {
			_, errOut, code = run(t, t.Context(), env, "member", "drain", fmt.Sprint(id))
		}
	}
	if code != exitUsage || !strings.Contains(errOut, "so its clients find none.\nmember: nothing was changed. If that is meant, say --yes") {
		t.Errorf("drain of the last server: exit %d, %s", code, errOut)
	}
	_, errOut, code = run(t, t.Context(), env, "member", "drain", "--end", fmt.Sprint(to))
	if code != 0 || !strings.Contains(errOut, fmt.Sprintf("Server %d lets clients in\n", to)) {
		t.Errorf("end of the drain: exit %d, %s", code, errOut)
	}
	if err := c.WaitConnected(t.Context()); err != nil {
		t.Errorf("the client does not come back: %v", err)
	}
}
