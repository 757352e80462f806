package server

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// dynamic are the lines of servers whose members can be changed, by any client.
var dynamic = []string{"reconfigEnabled=true", "standaloneEnabled=false", "skipACL=yes"}

// startDynamic starts the first servers of an ensemble that can have up to size servers.
func startDynamic(t *testing.T, first, size int, lines ...string) *testEnsemble {
	t.Helper()
	e := newEnsemble(t, size, append(lines, dynamic...)...)
	for id := 1; id <= size; id++ {
		e.disks[id] = crashfs.New(uint64(id))
	}
	for id := 1; id <= first; id++ {
		e.files[id] = idList(first)
		e.start(id)
	}
	e.leader()
	time.Sleep(2 * time.Second) // all are admitted
	e.settled()
	return e
}

// idList returns "1 2 3" for 3.
func idList(n int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(sequence(n)), ",", ""), "[]")
}

func sequence(n int) (list []int) {
	for i := range n {
		list = append(list, i+1)
	}
	return list
}

// join starts a server whose file has the first members and itself, and waits until it serves
// as a learner.
func (e *testEnsemble) join(id int, members string) *testServer {
	e.t.Helper()
	e.files[id] = fmt.Sprint(members, " ", id)
	s := e.start(id)
	e.await(fmt.Sprintf("server %d learns", id), s.service.serving.Load)
	time.Sleep(2 * time.Second) // it is admitted
	return s
}

// await waits for a condition.
func (e *testEnsemble) await(what string, ok func() bool) {
	e.t.Helper()
	for range 6000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.t.Fatalf("not within a minute: %s; %s", what, e.roles())
}

// spec is the line with which a server joins. role is "participant" or "observer".
func spec(id int, role string) string {
	return fmt.Sprintf("server.%[1]d=10.0.0.%[1]d:2888:3888:%s;2181", id, role)
}

func adding(ids ...int) *jute.ReconfigRequest {
	var specs []string
	for _, id := range ids {
		specs = append(specs, spec(id, "participant"))
	}
	return &jute.ReconfigRequest{Joining: strings.Join(specs, ","), ConfigID: -1}
}

func removing(ids ...int) *jute.ReconfigRequest {
	return &jute.ReconfigRequest{Leaving: strings.Join(strings.Fields(strings.Trim(fmt.Sprint(ids), "[]")), ","), ConfigID: -1}
}

// member reports whether a server is in the text of /zookeeper/config.
func member(text string, id int) bool { return strings.Contains(text, fmt.Sprintf("server.%d=", id)) }

// A request to change the members is refused for the reason that Apache's server would
// give, in its order of checks.
func TestReconfigRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 4)
		for i, tc := range []struct {
			request jute.ReconfigRequest
			code    jute.Code
		}{
			{jute.ReconfigRequest{Joining: "nonsense", ConfigID: 77}, jute.ErrBadVersion},
			{jute.ReconfigRequest{Joining: "nonsense", ConfigID: -1}, jute.ErrBadArguments},
			{jute.ReconfigRequest{EmptyMembers: true, ConfigID: 77}, jute.ErrBadVersion},
			{jute.ReconfigRequest{EmptyMembers: true, Joining: spec(4, "observer"), ConfigID: -1}, jute.ErrBadArguments},
			{jute.ReconfigRequest{Leaving: "x", ConfigID: -1}, jute.ErrMarshalling},
			{jute.ReconfigRequest{Joining: "server.x=10.0.0.4:2888:3888;2181", ConfigID: -1}, jute.ErrMarshalling},
			{jute.ReconfigRequest{Joining: "server.256=10.0.0.4:2888:3888;2181", ConfigID: -1}, jute.ErrBadArguments},
			{jute.ReconfigRequest{Joining: "server.4=10.0.0.4:2888:3888", ConfigID: -1}, jute.ErrBadArguments},                  // no port for clients
			{jute.ReconfigRequest{Joining: "server.4=10.0.0.3:2888:3888:participant;2181", ConfigID: -1}, jute.ErrBadArguments}, // the address of server 3
			{*removing(1, 2, 3), jute.ErrBadArguments},
			{jute.ReconfigRequest{NewMembers: spec(4, "participant"), ConfigID: -1}, jute.ErrNewConfigNoQuorum}, // it does not run
			{jute.ReconfigRequest{Leaving: "1", Joining: adding(4, 5, 6).Joining, ConfigID: -1}, jute.ErrNewConfigNoQuorum},
			{*adding(4), 0},   // the others are a quorum
			{*removing(7), 0}, // unknown ids do not matter
			{jute.ReconfigRequest{Joining: spec(4, "observer"), ConfigID: -1}, 0},
		} {
			c := e.servers[1+i%3].connect(t)
			if r := c.call(jute.OpReconfig, &tc.request); r.Err != tc.code {
				t.Errorf("%+v: %v, want %v", tc.request, r.Err, tc.code)
			}
			c.create(fmt.Sprint("/", i), "") // the connection continues
		}
		e.settled()
	})
}

// The change is answered with the new configuration as clients see it.
func TestReconfigShowsTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 4)
		e.join(4, "1 2 3")
		c, watcher := e.servers[e.follower()].connect(t), e.servers[4].connect(t)
		watcher.ok(jute.OpGetData, get(datatree.ConfigPath, true))
		r := c.ok(jute.OpReconfig, adding(4))
		var got jute.GetDataResponse
		d := jute.NewDecoder(r.body)
		got.Decode(&d)
		want := spec(4, "participant")
		if text := string(got.Data); !strings.Contains(text, strings.Replace(want, ";2181", ";0.0.0.0:2181", 1)) ||
			!strings.HasSuffix(text, fmt.Sprintf("version=%x", int64(got.Stat.Mzxid))) || got.Stat.Version != -1 {
			t.Errorf("got %q, %+v", got.Data, got.Stat)
		}
		if ev := watcher.must().event(); ev.Type != jute.EventDataChanged || ev.Path != datatree.ConfigPath {
			t.Errorf("got event %+v", ev)
		}
		e.awaitMembers("1, 2, 3, 4")
		again := *removing(4)
		again.ConfigID = int64(got.Stat.Mzxid)
		c.ok(jute.OpReconfig, &again)
		if r := c.call(jute.OpReconfig, &again); r.Err != jute.ErrBadVersion {
			t.Errorf("the same version again: %v", r.Err)
		}
	})
}

// change changes the members by a client of the leader, and waits until all running servers
// but those that are removed have the new ones. The leader may have to be asked again: it
// loses its clients if it is removed.
func (e *testEnsemble) change(want string, r *jute.ReconfigRequest) {
	e.t.Helper()
	for range 60 {
		c := e.servers[e.leader()].connect(e.t)
		c.send(jute.OpReconfig, r)
		if reply, err := c.next(); err != nil || reply.Err == 0 {
			break
		}
		time.Sleep(time.Second)
	}
	e.awaitMembers(want)
}

// An ensemble grows from one server to five and shrinks to one, without a stop. In the end
// the last server has everything that was written.
func TestReconfigGrowsAndShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 1, 5)
		writes := 0
		write := func() {
			e.servers[e.leader()].connect(t).create(fmt.Sprint("/w", writes), "")
			writes++
		}
		for id := 2; id <= 5; id++ {
			write()
			e.join(id, "1")
		}
		e.change("1, 2, 3", adding(2, 3))
		write()
		e.change("1, 2, 3, 4, 5", adding(4, 5))
		write()
		left := sequence(5)
		for _, size := range []int{3, 1} {
			// The leader leaves, and others.
			gone := []int{e.leader()}
			left = slices.DeleteFunc(left, func(id int) bool { return id == gone[0] })
			for len(left) > size {
				gone, left = append(gone, left[0]), left[1:]
			}
			e.change(strings.Trim(strings.ReplaceAll(fmt.Sprint(left), " ", ", "), "[]"), removing(gone...))
			write()
			for _, id := range gone {
				e.stop(id)
			}
		}
		c := e.servers[left[0]].connect(t)
		for i := range writes {
			if !c.exists(fmt.Sprint("/w", i)) {
				t.Errorf("/w%d is lost", i)
			}
		}
	})
}

// A leader is killed at each moment of a change, with the power of its machine. The
// ensemble then has the old or the new members, and serves.
func TestReconfigLeaderKilled(t *testing.T) {
	for _, after := range []time.Duration{0, 1, 2, 5, 10, 20, 50, 100, 200, 500} {
		t.Run(fmt.Sprint(after, "ms"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startDynamic(t, 3, 5)
				e.net.setRate(1 << 20)
				e.join(4, "1 2 3")
				e.join(5, "1 2 3")
				leader := e.leader()
				c := e.servers[leader].connect(t)
				c.send(jute.OpReconfig, &jute.ReconfigRequest{ConfigID: -1, Leaving: fmt.Sprint(leader%3 + 1),
					Joining: spec(4, "participant") + "," + spec(5, "participant")})
				time.Sleep(after * time.Millisecond)
				e.kill(leader)
				e.servers[e.leader()].connect(t).create("/a", "1")
				e.start(leader)
				e.servers[e.leader()].connect(t).create("/b", "1")
				e.settled()
				list := e.servers[leader].standing.lists.Load()
				if n := list.settled.NumVoters(); n != 3 && n != 4 || list.settled.Version != list.newest.Version {
					t.Errorf("the members are %v, and %v are under way", list.settled, list.newest)
				}
			})
		})
	}
}

// Clients that change the members at the same time, on the version that they have read: one
// of them succeeds.
func TestReconfigTwoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 5)
		e.join(4, "1 2 3")
		e.join(5, "1 2 3")
		version := int64(e.servers[1].standing.lists.Load().settled.Version)
		var clients []*client
		for id := 4; id <= 5; id++ {
			c := e.servers[id].connect(t)
			r := adding(id)
			r.ConfigID = version
			c.send(jute.OpReconfig, r)
			clients = append(clients, c)
		}
		one, other := clients[0].must().Err, clients[1].must().Err
		if one != 0 {
			one, other = other, one
		}
		if one != 0 || other != jute.ErrReconfigInProgress && other != jute.ErrBadVersion {
			t.Errorf("got %v and %v", one, other)
		}
	})
}

// A removed server that is started again serves as a learner without a vote, says why, and
// disturbs nobody; reconfig can add it again.
func TestReconfigRemovedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 3)
		id := e.follower()
		e.change(allBut(3, id), removing(id))
		epoch := e.servers[e.leader()].standing.role.Load().Epoch
		served := 0
		for tries := 0; served < 3; tries++ {
			e.kill(id)
			e.start(id)
			s := e.servers[id]
			e.await("the removed server serves, and knows", func() bool {
				return s.service.serving.Load() && s.standing.lists.Load().settled.Find(zab.SID(id)) == nil
			})
			synctest.Wait()
			if s.clients.Drain().Remark() != "" && tries < 10 {
				continue // it learned of its removal only now, since the crash had taken that, and sends clients away
			}
			served++
			e.servers[id].connect(t).create("/b", "")
			e.servers[id].connect(t).ok(jute.OpDelete, &jute.DeleteRequest{Path: "/b", Version: -1})
			if word := e.servers[id].ask(t, "srvr", false); !strings.Contains(word, "Mode: follower\n") {
				t.Errorf("srvr: %s", word)
			}
			e.await("the leader counts it as without a vote", func() bool { return e.servers[e.leader()].nonVoting() == 1 })
		}
		if !e.servers[id].said("this server is not a member") {
			t.Errorf("it said %q", e.servers[id].messages())
		}
		if st := e.servers[e.leader()].standing.role.Load(); st.Epoch != epoch {
			t.Errorf("epoch %d, before it was %d", st.Epoch, epoch)
		}
		time.Sleep(2 * time.Second)
		e.change("1, 2, 3", adding(id))
	})
}

// nonVoting returns the synced_non_voting_followers of mntr.
func (s *testServer) nonVoting() int64 {
	for _, m := range s.overview.read().Words() {
		if m.Name == "synced_non_voting_followers" {
			n, _ := strconv.ParseInt(m.Value, 10, 64)
			return n
		}
	}
	return -1
}

// allBut returns "1, 3" for 3 servers but 2.
func allBut(n, but int) string {
	list := slices.DeleteFunc(sequence(n), func(id int) bool { return id == but })
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}

// A server that was away during changes starts with its old file, which lists none of the
// present members but itself, and finds them: they know it.
func TestReconfigOldFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 5)
		e.join(4, "1 2 3")
		e.join(5, "1 2 3")
		e.stop(1)
		e.change("1, 4, 5", &jute.ReconfigRequest{ConfigID: -1, Leaving: "2,3",
			Joining: spec(4, "participant") + "," + spec(5, "participant")})
		e.stop(2)
		e.stop(3)
		c := e.servers[e.leader()].connect(t)
		c.create("/a", "1")
		e.start(1) // its file has 1, 2 and 3
		e.awaitMembers("1, 4, 5")
		e.settled()
		e.kill(e.leader()) // server 1 is needed now
		e.servers[e.leader()].connect(t).create("/b", "1")
	})
}

// A removed server starts again when those that lead are none of the servers that it knows,
// and one of these has become an observer: that one tells it of the others.
func TestReconfigRemovedServerFindsOtherMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 5)
		e.change("2, 3", removing(1))
		e.stop(1)
		e.join(4, "2 3")
		e.join(5, "2 3")
		e.change("3 (observer), 4, 5", &jute.ReconfigRequest{ConfigID: -1, Leaving: "2",
			Joining: spec(3, "observer") + "," + spec(4, "participant") + "," + spec(5, "participant")})
		e.stop(2)
		e.start(1) // its file and its history have 1, 2 and 3
		e.await("server 1 serves", e.servers[1].service.serving.Load)
		time.Sleep(2 * time.Second)
		e.change("1, 3 (observer), 4, 5", adding(1))
	})
}

// A removed server stays, linked to one member, when servers that it does not know become members
// and lead: that one tells it of them, although their link began before.
func TestReconfigRemovedServerHearsOfLaterMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 4)
		removed := e.follower()
		e.change(allBut(3, removed), removing(removed))
		leader := e.leader()
		e.net.sever(removed, leader, true)
		e.join(4, strings.ReplaceAll(allBut(3, removed), ",", ""))
		e.servers[leader].connect(t).ok(jute.OpReconfig, adding(4))
		e.awaitMembers(allBut(3, removed)+", 4", removed)
		e.kill(leader) // of equal servers the one with the highest id leads next
		e.await("server 4 leads", func() bool { return e.leader() == 4 })
		e.await("the removed server serves", e.servers[removed].service.serving.Load)
	})
}

// All others move to other ports while a server with a larger id, which would dial them, is
// away. That server comes back with the old addresses, and serves.
func TestReconfigMovedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 3)
		e.stop(3)
		for id := 1; id <= 2; id++ {
			e.change("1, 2, 3", &jute.ReconfigRequest{ConfigID: -1,
				Joining: fmt.Sprintf("server.%[1]d=10.0.0.%[1]d:2889:3889:participant;2181", id)})
		}
		e.start(3)
		e.await("server 3 serves", e.servers[3].service.serving.Load)
	})
}

// A server with the data of another ensemble is not let in, and can't be added.
func TestReconfigForeignData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foreign := startDynamic(t, 1, 1)
		foreign.servers[1].connect(t).create("/theirs", "1")
		foreign.stop(1)
		e := startDynamic(t, 3, 4)
		e.disks[4] = foreign.disks[1]
		e.files[4] = "1 2 3 4"
		if s, err := e.tryStart(4); err == nil { // with another id the data may not even start
			time.Sleep(5 * time.Second)
			if s.service.serving.Load() {
				t.Error("it serves")
			}
		}
		c := e.servers[1].connect(t)
		c.ok(jute.OpReconfig, adding(4)) // a quorum does not need it
		time.Sleep(5 * time.Second)
		if s := e.servers[4]; s != nil && s.service.serving.Load() {
			t.Error("it serves as a member")
		}
		c.create("/ours", "")
		if e.servers[e.leader()].connect(t).exists("/theirs") {
			t.Error("its data came into the ensemble")
		}
	})
}

// A server gets a vote though it is not there, as long as the others are a quorum. The leader
// says so, in its log and in mntr, until the server has come.
func TestReconfigGivesAVoteToAnAbsentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 5)
		e.change("1, 2, 3, 4, 5", adding(4, 5))
		leader := e.servers[e.leader()]
		if n := leader.logged.FilterMessageSnippet("gives a vote to servers that are not there or not up to date: [4 5]").Len(); n != 1 {
			t.Errorf("the leader logged %v", leader.logged.All())
		}
		time.Sleep(2 * time.Second) // the housekeeper looks
		if got := leader.mntr(t)["voters_missing"]; got != "4, 5" {
			t.Errorf("voters missing: %q", got)
		}
		leader.connect(t).create("/a", "1")
		for id := 4; id <= 5; id++ {
			e.files[id] = idList(5)
			e.start(id)
			e.await("it serves", e.servers[id].service.serving.Load)
		}
		time.Sleep(10 * time.Second) // they are admitted
		if got := leader.mntr(t)["voters_missing"]; got != "" {
			t.Errorf("voters missing: %q", got)
		}
		gone := 0
		for id := 1; gone < 2; id++ { // 4 and 5 are needed now
			if id != e.leader() {
				e.kill(id)
				gone++
			}
		}
		e.servers[e.leader()].connect(t).create("/b", "1")
		if v, _ := e.servers[4].connect(t).get("/a"); v != "1" {
			t.Errorf("read %q", v)
		}
	})
}

// An observer that is up to date takes the place of a voter that is down: with it there is a quorum
// of the new members.
func TestReconfigCountsObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 4)
		e.join(4, "1 2 3")
		down := e.follower()
		e.kill(down)
		time.Sleep(2 * time.Second) // the leader notices
		e.change("1, 2, 3, 4", adding(4))
		e.change(allBut(4, down), removing(down))
	})
}

// A server whose new client port is taken serves at the old one, and moves when the new one is free.
func TestReconfigPortIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 3)
		id := e.follower()
		e.stop(id)
		var taken atomic.Bool
		taken.Store(true)
		var ports sync.Map // of *memListener
		at := func(port string) *memListener {
			l, _ := ports.LoadOrStore(port, newMemListener())
			return l.(*memListener)
		}
		s, err := e.tryStart(id, func(o *Options) {
			o.Listen = func(_, addr string) (net.Listener, error) {
				if strings.HasSuffix(addr, ":2182") && taken.Load() {
					return nil, syscall.EADDRINUSE
				}
				_, port, _ := net.SplitHostPort(addr)
				return at(port), nil
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		e.settled()
		e.change("1, 2, 3", &jute.ReconfigRequest{ConfigID: -1, Joining: fmt.Sprintf("server.%[1]d=10.0.0.%[1]d:2888:3888;2182", id)})
		time.Sleep(2 * membersRetry)
		if s.net = at("2181"); s.logged.FilterMessageSnippet("can't follow the change of the members yet").Len() != 1 {
			t.Errorf("logged %v", s.logged.All())
		}
		s.connect(t).create("/old", "")
		taken.Store(false)
		time.Sleep(2 * membersRetry)
		s.net = at("2182")
		s.connect(t).create("/new", "")
	})
}

// A client that may not change the members learns nothing but that, whatever it asks for, and
// none of its text comes into the log.
func TestReconfigAsksForPermissionBeforeTheQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEnsemble(t, 3, "reconfigEnabled=true", superIs)
		c := e.servers[e.leader()].connect(t)
		sharing := jute.ReconfigRequest{Joining: "server.7=10.0.0.7:2888:3888:observer;2181,server.8=10.0.0.7:2889:3889:observer;2181", ConfigID: -1}
		for _, test := range []struct {
			request jute.ReconfigRequest
			want    jute.Code
		}{
			{jute.ReconfigRequest{Leaving: "1", ConfigID: 77}, jute.ErrBadVersion},
			{jute.ReconfigRequest{Joining: "nonsense", ConfigID: -1}, jute.ErrBadArguments},
			{jute.ReconfigRequest{EmptyMembers: true, ConfigID: -1}, jute.ErrBadArguments},
			{jute.ReconfigRequest{NewMembers: "\n2026-11-28T00:00:00 ERROR all is lost", ConfigID: -1}, jute.ErrBadArguments},
			{jute.ReconfigRequest{Joining: spec(7, "participant") + "," + spec(8, "participant") + "," + spec(9, "participant") + "," + spec(6, "participant"), ConfigID: -1}, jute.ErrNoAuth},
			{jute.ReconfigRequest{Joining: "server.999=0.0.0.0:1234:2345:observer;3456", ConfigID: -1}, jute.ErrNoAuth},
			{*adding(4), jute.ErrNoAuth},
			{sharing, jute.ErrNoAuth},
		} {
			if r := c.call(jute.OpReconfig, &test.request); r.Err != test.want {
				t.Errorf("%+v: %v, want %v", test.request, r.Err, test.want)
			}
		}
		if n := e.servers[e.leader()].logged.FilterMessageSnippet("change of the members").Len(); n != 0 {
			t.Errorf("the leader logged %v", e.servers[e.leader()].logged.All())
		}
		admin := e.servers[e.leader()].connect(t)
		admin.ok(jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: []byte("super:secret")})
		if r := admin.call(jute.OpReconfig, &sharing); r.Err != 0 || e.servers[e.leader()].logged.FilterMessageSnippet("may not get its ports").Len() != 1 {
			t.Errorf("an administrator: %v, the leader logged %v", r.Err, e.servers[e.leader()].logged.All())
		}
	})
}

// The members are saved beside the configuration file. While the disk has no room for that,
// the server serves, and tries again.
func TestReconfigSavesTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 4)
		e.join(4, "1 2 3")
		id := e.follower()
		e.stop(id)
		const file = "/conf/zoo.cfg"
		disk := e.disks[id]
		text := "# the file of an operator\ndataDir=/data\n" + strings.Join(e.serverLines(id), "\n") + "\nclientPort=2181\n"
		if err := errors.Join(disk.MkdirAll("/conf"), writeFile(disk, file, text)); err != nil {
			t.Fatal(err)
		}
		var full atomic.Bool
		full.Store(true)
		disk.SetHook(func(op crashfs.Op) error {
			if full.Load() && op.Kind == crashfs.OpWrite && strings.HasPrefix(op.Name, "/conf/") {
				return syscall.ENOSPC
			}
			return nil
		})
		if _, err := e.tryStart(id, func(o *Options) { o.Config.File = file }); err != nil {
			t.Fatal(err)
		}
		e.settled()
		e.change("1, 2, 3, 4", adding(4))
		time.Sleep(2 * membersRetry)
		if now, _ := vfs.ReadFile(disk, file); string(now) != text {
			t.Errorf("the file is %q", now)
		}
		mntr := func() string { return e.servers[id].ask(t, "mntr", false) }
		if text := mntr(); !strings.Contains(text, "zk_member_list_differs\t1\n") || !strings.Contains(text, "zk_members_error\tsave the members") {
			t.Errorf("mntr does not say that the file can't be written: %s", text)
		}
		e.servers[id].connect(t).create("/a", "1")
		full.Store(false)
		time.Sleep(2 * membersRetry)
		if text := mntr(); !strings.Contains(text, "zk_member_list_differs\t0\n") || strings.Contains(text, "zk_members_error") {
			t.Errorf("mntr says that the file can't be written: %s", text)
		}
		version := uint64(e.servers[id].standing.lists.Load().settled.Version)
		name := fmt.Sprintf("%s.dynamic.%x", file, version)
		now, err := vfs.ReadFile(disk, file)
		if want := "# the file of an operator\ndataDir=/data\ndynamicConfigFile=" + name + "\nclientPort=2181\n"; string(now) != want {
			t.Errorf("the file is %q, %v, want %q", now, err, want)
		}
		if list, err := vfs.ReadFile(disk, name); !member(string(list), 4) {
			t.Errorf("%s is %q, %v", name, list, err)
		}
	})
}

// A change of the members gives a server a port that something else has on its machine: its file, with which it could not start then, stays
// as it is until the port is free.
func TestReconfigSavesNoPortThatIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 3)
		id := e.follower()
		e.stop(id)
		const file, port = "/conf/zoo.cfg", "0.0.0.0:2199"
		disk := e.disks[id]
		text := "dataDir=/data\n" + strings.Join(e.serverLines(id), "\n") + "\nclientPort=2181\n"
		check(t, errors.Join(disk.MkdirAll("/conf"), writeFile(disk, file, text)))
		var taken atomic.Bool
		taken.Store(true)
		p := make(ports)
		listen := func(network, addr string) (net.Listener, error) {
			if taken.Load() && addr == port {
				return nil, syscall.EADDRINUSE
			}
			return p.listen(network, addr)
		}
		if _, err := e.tryStart(id, func(o *Options) { o.Config.File, o.Listen = file, listen }); err != nil {
			t.Fatal(err)
		}
		e.settled()
		line := fmt.Sprintf("server.%[1]d=10.0.0.%[1]d:2888:3888;2199", id)
		e.servers[e.leader()].connect(t).ok(jute.OpReconfig, &jute.ReconfigRequest{Joining: line, ConfigID: -1})
		time.Sleep(2 * membersRetry)
		now, err := vfs.ReadFile(disk, file)
		if says := e.servers[id].overview.read().Unfollowed; err != nil || string(now) != text || !strings.HasSuffix(says, syscall.EADDRINUSE.Error()) {
			t.Errorf("the file is %q, %v; the server says %q", now, err, says)
		}
		taken.Store(false)
		time.Sleep(2 * membersRetry)
		if now, err := vfs.ReadFile(disk, file); err != nil || !strings.Contains(string(now), "dynamicConfigFile=") || p[port] == nil {
			t.Errorf("the port is free, and the file is %q, %v", now, err)
		}
	})
}

func writeFile(fs vfs.FS, name, text string) error {
	f, err := fs.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), 0)
	return errors.Join(err, f.Sync(), f.Close())
}

// The leader changes as an administrator asks, and a server ends a share of its connections.
func TestTransferLeaderAndDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 3)
		leader := e.leader()
		to := leader%3 + 1
		c := e.servers[leader].connect(t)
		for _, bad := range []int32{0, 9} {
			if r := c.call(jute.OpTransferLeader, &jute.TransferLeaderRequest{Server: bad}); r.Err != jute.ErrBadArguments {
				t.Errorf("to server %d: %v", bad, r.Err)
			}
		}
		c.ok(jute.OpTransferLeader, &jute.TransferLeaderRequest{Server: int32(leader)})
		c.send(jute.OpTransferLeader, &jute.TransferLeaderRequest{Server: int32(to)})
		e.await("the leader changes", func() bool { return e.servers[to].standing.leads() })

		s := e.servers[to]
		e.await("it serves", s.service.serving.Load)
		c = s.connect(t)
		for range 10 {
			s.connect(t)
		}
		if r := c.call(jute.OpDrain, &jute.DrainRequest{Percent: 101}); r.Err != jute.ErrBadArguments {
			t.Errorf("101 %%: %v", r.Err)
		}
		r := c.ok(jute.OpDrain, &jute.DrainRequest{Percent: 45})
		d := jute.NewDecoder(r.body)
		if n := d.Int32(); n != 5 {
			t.Errorf("%d connections end", n)
		}
		e.await("5 connections end", func() bool { return s.connections() == 6 })
	})
}
