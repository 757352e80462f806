package server

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// startFiles prepares size servers with empty disks, and starts those that have a
// configuration file.
func startFiles(t *testing.T, size int, files map[int]string) *testEnsemble {
	t.Helper()
	e := newEnsemble(t, size)
	for id := 1; id <= size; id++ {
		e.disks[id] = crashfs.New(uint64(id))
	}
	e.files = files
	for id := 1; id <= size; id++ {
		if files[id] != "" {
			e.start(id)
		}
	}
	return e
}

// restart restarts a server with other members in its configuration file.
func (e *testEnsemble) restart(id int, file string) {
	e.t.Helper()
	if e.servers[id] != nil {
		e.stop(id)
	}
	e.files[id] = file
	e.start(id)
}

// awaitMembers waits until all running servers, except some, have the same committed
// list, and show it to clients.
func (e *testEnsemble) awaitMembers(want string, but ...int) {
	e.t.Helper()
	agree := func() bool {
		for id, s := range e.servers {
			if s == nil || slices.Contains(but, id) {
				continue
			}
			list := s.standing.lists.Load().settled
			if list.String() != want || s.standing.role.Load().Settled == 0 || !s.service.serving.Load() {
				return false
			}
		}
		return true
	}
	for range 6000 {
		if agree() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	for id, s := range e.servers {
		if s != nil {
			e.t.Logf("server %d: %v, file %v, serving %v", id, s.standing.lists.Load().settled, &s.standing.intro.Load().Members, s.service.serving.Load())
		}
	}
	e.t.Fatalf("the members are not %s within a minute: %s", want, e.roles())
}

// split cuts the links between two groups of servers, or heals them.
func (e *testEnsemble) split(a, b []int, cut bool) {
	for _, x := range a {
		for _, y := range b {
			e.net.sever(x, y, cut)
		}
	}
}

// leaders returns the servers that lead and serve.
func (e *testEnsemble) leaders() (list []int) {
	for id, s := range e.servers {
		if s != nil && s.standing.leads() && s.service.serving.Load() {
			list = append(list, id)
		}
	}
	return list
}

// said reports whether a server has logged a text, at warning or above.
func (s *testServer) said(text string) bool {
	return slices.ContainsFunc(s.messages(), func(line string) bool { return strings.Contains(line, text) })
}

// saidMembers reports whether a server has logged which members count since the first
// zxid of some epoch, and then a text. Which epoch that is depends on the schedule: a
// first candidate may lose its election after others promised it epoch 1.
func (s *testServer) saidMembers(list, text string) bool {
	line := regexp.MustCompile("the members are " + list + " since 0x[1-9a-f]00000000, and " + regexp.QuoteMeta(text))
	return slices.ContainsFunc(s.messages(), line.MatchString)
}

func (s *testServer) messages() (lines []string) {
	for _, e := range s.logged.All() {
		lines = append(lines, fmt.Sprint(e.Message, e.ContextMap()))
	}
	return lines
}

// An ensemble of three is to grow to five by rolling restarts, as users of static files
// do it. In the middle of that two servers have the old list of three and three have the
// new one of five, and the network splits into exactly these parts: each part is a
// majority of the list in its files. Only one of them may lead.
func TestTwoListsNeverMakeTwoLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startFiles(t, 5, map[int]string{1: "1 2 3", 2: "1 2 3", 3: "1 2 3"})
		c := e.servers[e.leader()].connect(t)
		c.create("/a", "1")
		e.settled()
		e.restart(3, "1 2 3 4 5")
		e.restart(4, "1 2 3 4 5")
		e.restart(5, "1 2 3 4 5")
		for range 20 { // server 3 must lead: else 4 and 5 stay empty, and nothing could go wrong
			if e.leader() == 3 {
				break
			}
			e.kill(1)
			e.kill(2)
			time.Sleep(2 * time.Second)
			e.start(2)
			e.start(1)
			time.Sleep(2 * time.Second)
		}
		if l := e.leader(); l != 3 {
			t.Fatalf("server %d leads", l)
		}
		time.Sleep(5 * time.Second)
		e.split([]int{1, 2}, []int{3, 4, 5}, true)
		time.Sleep(2 * time.Second) // server 3 notices that it has lost its quorum
		for range 150 {
			time.Sleep(100 * time.Millisecond)
			for _, id := range e.leaders() {
				if id > 2 {
					t.Fatalf("server %d leads with a list that only its file has: %s", id, e.roles())
				}
			}
		}
		if l := e.leaders(); len(l) != 1 {
			t.Fatalf("%v lead: %s", l, e.roles())
		}
		e.servers[e.leaders()[0]].connect(t).set("/a", "2")
		e.split([]int{1, 2}, []int{3, 4, 5}, false)
		time.Sleep(5 * time.Second)
		for id := 4; id <= 5; id++ {
			if s := e.servers[id]; !s.said("the configuration files differ") || !s.saidMembers("1, 2, 3", "its file does not list it either") {
				t.Errorf("server %d says %v", id, s.messages())
			}
			e.stop(id) // no other server accepts it yet
		}
		e.settled()
		for id := 1; id <= 3; id++ {
			if v, _ := e.servers[id].connect(t).get("/a"); v != "2" {
				t.Errorf("server %d: read %q", id, v)
			}
			if !e.servers[id].said("the configuration files differ") {
				t.Errorf("server %d does not say that files differ: %v", id, e.servers[id].messages())
			}
		}
		for _, tt := range []struct {
			id   int
			want string
		}{
			{1, "zk_member_list_differs\t0\n"}, {1, "zk_peers_with_other_member_list\t1\n"}, {1, "zk_quorum_size\t3\n"},
			{3, "zk_member_list_differs\t1\n"}, {3, "zk_members\t1, 2, 3\n"}, {3, "zk_members_of_file\t1, 2, 3, 4, 5\n"}, {3, "zk_quorum_size\t3\n"},
		} {
			if word := e.servers[tt.id].ask(t, "mntr", false); !strings.Contains(word, tt.want) {
				t.Errorf("mntr of server %d lacks %q:\n%s", tt.id, tt.want, word)
			}
		}
	})
}

// Two lists that each have a majority of their servers create no ensemble: the servers
// report that instead of creating two.
func TestDifferentFilesFoundNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startFiles(t, 5, map[int]string{1: "1 2 3", 2: "1 2 3", 3: "1 2 3 4 5", 4: "1 2 3 4 5", 5: "1 2 3 4 5"})
		time.Sleep(time.Minute)
		for id := 1; id <= 5; id++ {
			if s := e.servers[id]; s.service.serving.Load() || !s.said("no history says yet which list is right") {
				t.Errorf("server %d: serving %v, says %v", id, s.service.serving.Load(), s.messages())
			}
		}
		e.restart(1, "1 2 3 4 5")
		e.restart(2, "1 2 3 4 5")
		e.leader()
		e.settled()
	})
}

// One server of a new ensemble has an older file than the others, as after a restore of
// its configuration: the list that a majority of its members has counts, and that server
// takes it from them.
func TestAnOldFileFollowsTheMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startFiles(t, 5, map[int]string{1: "1 2 3", 2: "1 2 3 4 5", 3: "1 2 3 4 5", 4: "1 2 3 4 5", 5: "1 2 3 4 5"})
		if l := e.leader(); l == 1 {
			t.Errorf("server 1 leads, with a list that its file alone has")
		}
		e.settled()
		if s := e.servers[1]; !s.saidMembers("1, 2, 3, 4, 5", "the configuration file of this server has 1, 2, 3") {
			t.Errorf("server 1 says %v", s.messages())
		}
		first := e.servers[1].configNode(t)
		for id := 2; id <= 5; id++ {
			if got := e.servers[id].configNode(t); got != first || strings.Count(got, "server.") != 5 {
				t.Errorf("server %d has the members\n%s\nand server 1\n%s", id, got, first)
			}
		}
	})
}

// writer writes at the current leader until stop; it records every acknowledged value.
type writer struct {
	e     *testEnsemble
	acked []string
}

func (w *writer) write(n int) {
	w.e.t.Helper()
	for range n {
		path := fmt.Sprintf("/w%05d", len(w.acked))
		w.e.servers[w.e.leader()].connect(w.e.t).create(path, "x")
		w.acked = append(w.acked, path)
	}
}

func (w *writer) check() {
	w.e.t.Helper()
	w.e.settled()
	for id, s := range w.e.servers {
		if s == nil {
			continue
		}
		c := s.connect(w.e.t)
		for _, path := range w.acked {
			if !c.exists(path) {
				w.e.t.Fatalf("server %d lacks %s, which was acknowledged", id, path)
			}
		}
	}
}

// configNode returns what clients see of the members.
func (s *testServer) configNode(t *testing.T) string {
	t.Helper()
	text, _ := s.connect(t).get(datatree.ConfigPath)
	return text
}

// TestGrowByFiles follows the procedure of docs/members.md: from three servers to
// five.
func TestGrowByFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startFiles(t, 5, map[int]string{1: "1 2 3", 2: "1 2 3", 3: "1 2 3"})
		w := &writer{e: e}
		w.write(20)
		before := e.servers[1].configNode(t)
		e.restart(4, "1 2 3 4 5")
		e.restart(5, "1 2 3 4 5")
		w.write(5)
		if now := e.servers[1].configNode(t); now != before {
			t.Errorf("the members changed to %q", now)
		}
		for _, id := range []int{2, 1, 3} {
			e.restart(id, "1 2 3 4 5")
			e.leader()
			w.write(5)
		}
		e.awaitMembers("1, 2, 3, 4, 5")
		time.Sleep(2 * time.Second)
		for id := 1; id <= 5; id++ {
			text := e.servers[id].configNode(t)
			if strings.Count(text, "server.") != 5 || !strings.Contains(text, "server.5=10.0.0.5:2888:3888:participant\nversion=") {
				t.Errorf("server %d shows clients %q", id, text)
			}
			st := e.servers[id].standing.role.Load()
			if st.FileDiffers || st.OtherFiles != 0 || st.NotCounted != "" || st.Observer {
				t.Errorf("server %d: %+v", id, st)
			}
		}
		// Now the ensemble survives the loss of two: two of the old ones, for instance.
		e.kill(1)
		e.kill(2)
		w.write(5)
		e.start(1)
		e.start(2)
		w.check()
	})
}

// One server after the other gets the new file, in each order, and at each step the
// network separates the servers with the new file from the others. Nothing acknowledged
// is lost, and in the end there are five.
func TestGrowInAnyOrderUnderPartitions(t *testing.T) {
	for _, order := range [][]int{{1, 2, 3, 4, 5}, {3, 4, 5, 1, 2}, {4, 1, 5, 3, 2}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startFiles(t, 5, map[int]string{1: "1 2 3", 2: "1 2 3", 3: "1 2 3"})
				w := &writer{e: e}
				w.write(3)
				for i, id := range order {
					e.restart(id, "1 2 3 4 5")
					time.Sleep(3 * time.Second)
					e.split(order[:i+1], order[i+1:], true)
					for range 30 {
						time.Sleep(100 * time.Millisecond)
						if l := e.leaders(); len(l) > 1 && e.lead(l[0]) == e.lead(l[1]) {
							t.Fatalf("%v lead in one epoch", l)
						}
					}
					e.split(order[:i+1], order[i+1:], false)
					e.leader()
					w.write(3)
				}
				e.awaitMembers("1, 2, 3, 4, 5")
				w.check()
			})
		})
	}
}

func (e *testEnsemble) lead(id int) uint32 { return e.servers[id].standing.role.Load().Epoch }

// TestShrinkByFiles: from five servers to three, in a mixed order, with a cut.
func TestShrinkByFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := "1 2 3 4 5"
		e := startFiles(t, 5, map[int]string{1: all, 2: all, 3: all, 4: all, 5: all})
		w := &writer{e: e}
		w.write(5)
		time.Sleep(2 * time.Second)
		for _, id := range []int{2, 1, 3} {
			e.restart(id, "1 2 3")
			time.Sleep(2 * time.Second)
			e.split([]int{1, 2}, []int{3, 4, 5}, true)
			time.Sleep(3 * time.Second)
			if l := e.leaders(); id != 3 && (slices.Contains(l, 1) || slices.Contains(l, 2)) {
				t.Fatalf("two servers of five lead: %s", e.roles())
			}
			e.split([]int{1, 2}, []int{3, 4, 5}, false)
			e.leader()
			w.write(3)
		}
		e.stop(5)
		w.write(3)
		e.stop(4)
		e.awaitMembers("1, 2, 3")
		w.write(3)
		// A removed server that starts again does not disturb the others, and reports
		// why.
		epoch := e.lead(e.leader())
		e.start(4)
		time.Sleep(10 * time.Second)
		if e.servers[4].service.serving.Load() || !e.servers[4].said("refused by the other side: server 4 is not in the configuration") {
			t.Errorf("the removed server: serving %v, says %v", e.servers[4].service.serving.Load(), e.servers[4].messages())
		}
		if now := e.lead(e.leader()); now != epoch {
			t.Errorf("epoch %d became %d", epoch, now)
		}
		e.stop(4)
		e.stop(e.leader()) // two of three continue
		w.write(3)
	})
}

// TestReplaceByFiles replaces a dead server by a new one.
func TestReplaceByFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startFiles(t, 4, map[int]string{1: "1 2 3", 2: "1 2 3", 3: "1 2 3"})
		w := &writer{e: e}
		w.write(5)
		time.Sleep(2 * time.Second)
		e.kill(3)
		e.restart(4, "1 2 4")
		w.write(3)
		e.restart(1, "1 2 4")
		w.write(3)
		e.restart(2, "1 2 4")
		e.awaitMembers("1, 2, 4")
		time.Sleep(2 * time.Second)
		e.kill(e.leader())
		w.write(3)
	})
}

// A server that missed the change, and has the old file, is synchronized by the new
// members, and changes nothing, not even as the leader.
func TestOldFileChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startFiles(t, 5, map[int]string{1: "1 2 3", 2: "1 2 3", 3: "1 2 3"})
		w := &writer{e: e}
		w.write(3)
		time.Sleep(2 * time.Second)
		e.stop(1)
		for _, id := range []int{4, 5, 2, 3} {
			e.restart(id, "1 2 3 4 5")
		}
		e.awaitMembers("1, 2, 3, 4, 5")
		time.Sleep(2 * time.Second)
		e.stop(2)
		e.stop(3) // server 1 knows it
		e.leader2(4, 5)
		e.start(1)
		e.awaitMembers("1, 2, 3, 4, 5")
		w.write(3)
		// Server 1 can lead, with 4 and 5, regardless of its file.
		for range 20 {
			l := e.leader()
			if l == 1 {
				break
			}
			e.stop(l)
			e.start(l)
			e.settled()
		}
		e.start(2)
		e.settled()
		time.Sleep(10 * time.Second)
		e.awaitMembers("1, 2, 3, 4, 5")
		w.check()
		if !e.servers[1].standing.role.Load().FileDiffers {
			t.Error("server 1 does not know that its file differs")
		}
	})
}

// leader2 waits until two servers that are no quorum do not serve.
func (e *testEnsemble) leader2(ids ...int) {
	e.t.Helper()
	for range 3000 {
		if !slices.ContainsFunc(ids, func(id int) bool { return e.servers[id].service.serving.Load() }) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.t.Fatalf("servers without a quorum serve: %s", e.roles())
}

// TestRolesByFiles makes an observer a voter, and a voter an observer.
func TestRolesByFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startFiles(t, 4, map[int]string{1: "1 2 3 4o", 2: "1 2 3 4o", 3: "1 2 3 4o", 4: "1 2 3 4o"})
		w := &writer{e: e}
		w.write(3)
		time.Sleep(2 * time.Second)
		for _, id := range []int{4, 1, 3, 2} {
			e.restart(id, "1o 2 3 4")
			e.leader()
		}
		e.awaitMembers("1 (observer), 2, 3, 4")
		time.Sleep(2 * time.Second)
		w.write(3)
		if word := e.servers[1].ask(t, "srvr", false); !strings.Contains(word, "Mode: observer\n") {
			t.Errorf("srvr of server 1: %s", word)
		}
		e.kill(1)
		e.kill(e.leader())
		w.write(3)
	})
}

// New, empty servers that are a majority of the new list do not create a new ensemble:
// the old servers refuse them, which shows that one exists.
func TestNewServersFoundNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startFiles(t, 7, map[int]string{1: "1 2 3", 2: "1 2 3", 3: "1 2 3"})
		w := &writer{e: e}
		w.write(3)
		for _, id := range []int{4, 5, 6, 7} {
			e.restart(id, "1 2 3 4 5 6 7")
			time.Sleep(2 * time.Second) // so that it has been refused
		}
		time.Sleep(30 * time.Second)
		for id := 4; id <= 7; id++ {
			if e.servers[id].service.serving.Load() {
				t.Fatalf("server %d serves: %s", id, e.roles())
			}
		}
		for id := 1; id <= 3; id++ {
			e.restart(id, "1 2 3 4 5 6 7")
		}
		e.awaitMembers("1, 2, 3, 4, 5, 6, 7")
		w.check()
	})
}

// A copy of a member's directory is made while the member is stopped. It continues,
// and confirms writes together with one other server; then the copy is put back.
// With the third server, which lacks the writes as well, it must elect no leader.
func TestOldCopyHasNoVote(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		a, b, c := 1, 2, 3
		e.servers[e.leader()].connect(t).create("/before", "1")
		e.settled()
		e.stop(b)
		copied := e.disks[b].Crash(nil)
		e.start(b)
		e.settled()
		e.servers[e.leader()].connect(t).create("/all", "1")
		e.settled()
		e.stop(c)
		e.leader()
		w := &writer{e: e}
		w.write(20)
		e.stop(b)
		e.disks[b] = copied
		for _, id := range []int{b, c} {
			e.net.sever(a, id, true)
		}
		e.start(b)
		e.start(c)
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			if l := e.leaders(); slices.Contains(l, b) || slices.Contains(l, c) {
				t.Fatalf("%v lead without 20 acknowledged writes: %s", l, e.roles())
			}
		}
		if st := e.servers[b].standing.role.Load(); st.NotCounted == "" || !e.servers[b].said("the data of this server is an old copy") {
			t.Errorf("the old copy counts: %+v, says %v", st, e.servers[b].messages())
		}
		if !e.servers[c].said("the other server runs on an old copy of its data") {
			t.Errorf("server %d says %v", c, e.servers[c].messages())
		}
		for _, id := range []int{b, c} {
			e.net.sever(a, id, false)
		}
		e.leader()
		w.check()
		time.Sleep(3 * time.Second)
		if w := e.servers[b].standing.role.Load().NotCounted; w != "" {
			t.Errorf("the copy is not admitted again: %s", w)
		}
		e.stop(b) // and it stays so
		e.start(b)
		e.settled()
		e.stop(a)
		w.write(3)
	})
}

// TestOldCopyDuringHandshake: a server comes back with an old copy of its data. It has said hello to
// the leader when the third server doubts it, and the leader hears that hello only afterwards. It is
// admitted again all the same, whether it dials the leader or the reverse.
func TestOldCopyDuringHandshake(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("server %d", n), func(t *testing.T) {
			inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
				e.stop(1)
				e.stop(3)
				e.start(1)
				if leader := e.leader(); leader != 2 {
					t.Fatalf("server %d leads", leader)
				}
				e.start(3)
				e.settled()
				e.stop(n)
				copied := e.disks[n].Crash(nil)
				e.start(n)
				e.settled()
				e.stop(n)
				e.disks[n] = copied
				release := e.net.hold(n, 2)
				e.start(n)
				time.Sleep(500 * time.Millisecond)
				if !e.servers[n].said("the data of this server is an old copy") {
					t.Errorf("server %d was not told: %v", n, e.servers[n].messages())
				}
				release()
				time.Sleep(5 * time.Second)
				if st := e.servers[n].standing.role.Load(); st.NotCounted != "" || st.Role != zab.Following {
					t.Errorf("it is not admitted again: %s; %s", st.NotCounted, e.roles())
				}
			})
		})
	}
}

// A whole ensemble is restored from the copies of a majority, as described in
// docs/members.md. They were made one after the other, so the later copy remembers a
// later state of the other server than the restored one: no server leads until the
// operator declares that later data is given up.
func TestRestoredEnsembleNeedsAcceptOldData(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		e.servers[e.leader()].connect(t).create("/kept", "1")
		e.settled()
		copies := make([]*crashfs.FS, 4)
		for id := 1; id <= 3; id++ {
			e.stop(id)
			copies[id] = e.disks[id].Crash(nil)
			e.start(id)
			e.settled()
		}
		e.servers[e.leader()].connect(t).create("/given-up", "1")
		for id := 1; id <= 3; id++ {
			e.stop(id)
			e.disks[id] = copies[id]
		}
		e.disks[3] = crashfs.New(99)
		for id := 1; id <= 3; id++ {
			e.start(id)
		}
		time.Sleep(30 * time.Second)
		if l := e.leaders(); len(l) > 0 || !e.servers[1].said("--accept-old-data") {
			t.Fatalf("%v lead; server 1 says %v", l, e.servers[1].messages())
		}
		e.vouched = true
		for id := 1; id <= 2; id++ {
			e.stop(id)
			e.start(id)
		}
		e.leader()
		time.Sleep(3 * time.Second) // the third is admitted
		e.settled()
		c := e.servers[1].connect(t)
		if !c.exists("/kept") || c.exists("/given-up") {
			t.Error("the ensemble does not have what the copies have")
		}
		e.vouched = false // the next starts need nothing
		for id := 1; id <= 3; id++ {
			e.stop(id)
			e.start(id)
			e.settled()
			if w := e.servers[id].standing.role.Load().NotCounted; w != "" {
				t.Errorf("server %d: %s", id, w)
			}
		}
	})
}

// Without forceSync the end of a log may be lost by a crash: nothing is compared.
func TestUnsyncedLogIsNotDoubted(t *testing.T) {
	inBubble(t, 3, []string{"forceSync=no"}, func(t *testing.T, e *testEnsemble) {
		if in := e.servers[1].standing.intro.Load(); len(in.Starts) != 0 {
			t.Errorf("starts %v are shown", in.Starts)
		}
		id := e.follower()
		e.stop(id)
		copied := e.disks[id].Kill()
		e.start(id)
		e.settled()
		e.stop(id)
		e.disks[id] = copied
		e.start(id)
		e.settled()
		if e.servers[id].said("old copy") {
			t.Errorf("the server says %v", e.servers[id].messages())
		}
	})
}

// The text of the list in /zookeeper/config follows the history; the addresses follow the
// files.
func TestAddressesByFiles(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		e.servers[e.leader()].connect(t).create("/a", "1")
		version := e.servers[1].standing.role.Load().Settled
		for id := 1; id <= 3; id++ {
			e.stop(id)
		}
		e.lines = append(e.lines, "clientPortAddress=0.0.0.0")
		for id := 1; id <= 3; id++ {
			e.files[id] = "1 2 3"
		}
		for id := 1; id <= 3; id++ {
			e.start(id)
		}
		e.settled()
		if now := e.servers[1].standing.role.Load().Settled; now != version || now == 0 {
			t.Errorf("the version of the list was %v and is %v", version, now)
		}
		if text := string(e.servers[2].standing.lists.Load().settled.Text); !strings.HasPrefix(text, "server.1=10.0.0.1:2888:3888:participant\n") {
			t.Errorf("text %q", text)
		}
	})
}

// A server listens at each of its addresses once, and at each of its ports where it listens on all
// addresses of the machine.
func TestPeerAddrs(t *testing.T) {
	for _, tc := range []struct {
		line              string
		all               bool
		listen, advertise string
	}{
		{"a:2888:3888", false, "a:2888", "a:2888"},
		{"a:2888:3888|b:2889:3888", false, "a:2888 b:2889", "a:2888 b:2889"},
		{"a:2888:3888|a:2888:3889", false, "a:2888", "a:2888"},
		{"a:2888:3888", true, ":2888", "a:2888"},
		{"a:2888:3888|b:2888:3888", true, ":2888", "a:2888 b:2888"},
		{"a:2888:3888|a:2889:3889", true, ":2888 :2889", "a:2888 a:2889"},
	} {
		m, err := config.ParseMembers("server.1=" + tc.line)
		if err != nil {
			t.Fatal(err)
		}
		listen, advertise := peerAddrs(&config.Config{QuorumListenOnAllIPs: tc.all}, &m.Servers[0])
		if got := strings.Join(listen, " "); got != tc.listen || strings.Join(advertise, " ") != tc.advertise {
			t.Errorf("%s, all %t: listens at %s, advertises %s, want %s and %s", tc.line, tc.all, got, advertise, tc.listen, tc.advertise)
		}
	}
}
