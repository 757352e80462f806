package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
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
	e.await(fmt.Sprintf("server %d learns", id), s.serving.Load)
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
			{jute.ReconfigRequest{Leaving: "x", ConfigID: -1}, jute.ErrMarshalling},
			{jute.ReconfigRequest{Joining: "server.4=10.0.0.4:2888:3888", ConfigID: -1}, jute.ErrBadArguments},                  // no port for clients
			{jute.ReconfigRequest{Joining: "server.4=10.0.0.3:2888:3888:participant;2181", ConfigID: -1}, jute.ErrBadArguments}, // the address of server 3
			{*removing(1, 2, 3), jute.ErrBadArguments},
			{*adding(4), jute.ErrNewConfigNoQuorum}, // it does not run
			{jute.ReconfigRequest{NewMembers: spec(4, "participant"), ConfigID: -1}, jute.ErrNewConfigNoQuorum},
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
		watcher.ok(jute.OpGetData, get(configPath, true))
		r := c.ok(jute.OpReconfig, adding(4))
		var got jute.GetDataResponse
		d := jute.NewDecoder(r.body)
		got.Decode(&d)
		want := spec(4, "participant")
		if text := string(got.Data); !strings.Contains(text, strings.Replace(want, ";2181", ";0.0.0.0:2181", 1)) ||
			!strings.HasSuffix(text, fmt.Sprintf("version=%x", int64(got.Stat.Mzxid))) || got.Stat.Version != -1 {
			t.Errorf("got %q, %+v", got.Data, got.Stat)
		}
		if ev := watcher.must().event(); ev.Type != jute.EventDataChanged || ev.Path != configPath {
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
