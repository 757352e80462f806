package cluster

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/ask"
	"github.com/zkd-project/zkd/test/internal/process"
)

// TestMembers changes the members of an ensemble as docs/members.md says: by
// configuration files and restarts, in the right order and in wrong ones, while
// clients write.
func TestMembers(t *testing.T) {
	if testing.Short() || apache() {
		t.Log("lists that differ from server to server make two leaders of Apache's servers")
		return
	}
	t.Parallel()
	c := newCampaign(t, shape{voters: 3, spare: 2})
	for _, f := range memberFaults {
		c.round(f)
		if t.Failed() {
			return
		}
	}
	c.summary()
}

// memberFaults begin with three of five servers, each with what the one before has
// left.
var memberFaults = []fault{
	{"two lists, and a cut between them", twoLists},
	{"grow to five", grow},
	{"an old file", oldFile},
	{"shrink to three, the removed ones stopped first", shrinkWrongly},
	{"replace a dead server", replace},
}

// file writes the configuration file of a server with other members.
func (c *campaign) file(s *server, members []*server) {
	s.configure(append(slices.Clone(c.e.lines), c.e.lists(s, members)...))
}

// refile restarts a server with other members in its file, and waits for it.
func (c *campaign) refile(s *server, members []*server) {
	c.Helper()
	if s.Running() {
		s.Stop()
	}
	c.file(s, members)
	s.start()
	c.e.awaitAll()
}

// fact returns what mntr of a server says under a name.
func (s *server) fact(name string) string {
	text, err := ask.Within(answerTime, s.addr, "mntr")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(text, "\nzk_"+name+"\t")
	fact, _, _ := strings.Cut(rest, "\n")
	return fact
}

// awaitMembers waits until all that are to work have these members.
func (c *campaign) awaitMembers(members ...*server) {
	c.Helper()
	var names []string
	for _, s := range members {
		names = append(names, fmt.Sprint(s.id))
	}
	want := strings.Join(names, ", ")
	if !process.Poll(func() bool {
		return !slices.ContainsFunc(c.e.servers, func(s *server) bool { return s.Running() && s.fact("members") != want })
	}) {
		for _, s := range c.e.servers {
			c.Logf("server %d: members %q, in its file %q", s.id, s.fact("members"), s.fact("members_of_file"))
		}
		c.Fatalf("the members are not %s; roles are %q", want, c.e.modes())
	}
}

// leaderLast returns servers with the leader as the last one.
func (c *campaign) leaderLast(list []*server) []*server {
	leader := c.e.awaitLeader()
	list = slices.DeleteFunc(slices.Clone(list), func(s *server) bool { return s == leader })
	return append(list, leader)
}

// twoLists is in the middle of growing when the network falls into the servers with
// the old list and those with the new one. Each part is a majority of its list.
func twoLists(c *campaign) {
	all := c.e.all
	for _, s := range all[3:] {
		c.file(s, all)
		s.start()
	}
	c.refile(all[2], all)
	for range 10 { // server 3 should lead: it brings the data to 4 and 5
		leader := c.e.awaitLeader()
		if leader == all[2] {
			break
		}
		leader.Stop()
		leader.start()
		c.e.awaitAll()
	}
	for _, a := range all[:2] {
		for _, b := range all[2:] {
			c.e.net.cut(a.id, b.id)
		}
	}
	if !process.Poll(func() bool { return all[2].mode() == "" }) {
		c.Error("server 3 serves, cut off from the two others of its ensemble")
	}
	c.wait(2 * time.Second) // servers 3 to 5 look for a leader
	for _, s := range all[2:] {
		if m := s.mode(); m != "" {
			c.Errorf("server %d, which has a list that the ensemble does not have, is %s", s.id, m)
		}
	}
	c.awaitWrite()
	c.e.net.heal()
	c.e.awaitAll()
	c.says("the configuration files differ", all[2])
	c.awaitMembers(all[:3]...)
}

// grow completes the change, as the document says.
func grow(c *campaign) {
	all := c.e.all
	for _, s := range c.leaderLast(all[:2]) {
		c.refile(s, all)
	}
	c.e.servers = all
	c.awaitMembers(all...)
	c.e.awaitAll()
	for _, s := range all {
		if s.fact("member_list_differs") != "0" || s.fact("peers_with_other_member_list") != "0" {
			c.Errorf("server %d says that lists differ", s.id)
		}
	}
}

// oldFile has a server start with the file of before.
func oldFile(c *campaign) {
	all, s := c.e.all, c.pick(c.e.all[:3])
	c.refile(s, all[:3])
	c.says("and the configuration file of this server has 1, 2, 3", s)
	c.awaitMembers(all...)
	c.refile(s, all)
	c.awaitMembers(all...)
}

// shrinkWrongly stops the servers that are to go before the others know of it. Then
// three of five are left, which can't spare one: while one of them restarts, nobody
// serves.
func shrinkWrongly(c *campaign) {
	all := c.e.all
	all[3].Stop()
	all[4].Stop()
	for _, s := range c.leaderLast(all[:3]) {
		c.refile(s, all[:3])
	}
	c.e.servers = all[:3:3]
	c.awaitMembers(all[:3]...)
	// One that was removed starts again: nobody follows it, and it says why.
	all[3].start()
	if !process.Poll(func() bool { return strings.Contains(all[3].LogNow(), "not in the configuration of server") }) {
		c.Error("the removed server does not say that it was removed")
	}
	all[3].Stop()
}

// replace puts an empty server with a new id in the place of one that is lost.
func replace(c *campaign) {
	all := c.e.all
	dead := c.pick(all[:3])
	dead.Kill()
	s := all[4]
	c.must(os.RemoveAll(s.Data))
	c.must(os.MkdirAll(s.Data, 0o755))
	members := append(slices.DeleteFunc(slices.Clone(all[:3]), func(s *server) bool { return s == dead }), s)
	c.file(s, members)
	s.start()
	c.e.servers = members
	for _, s := range members[:2] {
		s.Stop() // there is no quorum until it is back
		c.file(s, members)
		s.start()
		c.awaitWrite()
	}
	c.awaitMembers(members...)
	c.e.awaitAll()
}
