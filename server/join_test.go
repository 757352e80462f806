package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
)

// tryJoin starts a server that joins an ensemble of three. Its file has them and its own line.
func (e *testEnsemble) tryJoin(id int, line string) (*testServer, error) {
	e.t.Helper()
	return e.tryJoinAs(id, line, line)
}

// tryJoinAs is tryJoin for a server that asks with another line than that in its file.
func (e *testEnsemble) tryJoinAs(id int, line, ask string) (*testServer, error) {
	e.t.Helper()
	cfg := parseConfig(e.t, e.dir, slices.Concat(e.lines, []string{
		"server.1=10.0.0.1:2888:3888", "server.2=10.0.0.2:2888:3888", "server.3=10.0.0.3:2888:3888", fmt.Sprintf("server.%d=%s", id, line), fmt.Sprintf("zkd.myid=%d", id),
	})...)
	return e.tryStart(id, func(o *Options) { o.Config, o.Join = cfg, ask })
}

func observerAt(host int) string { return fmt.Sprintf("10.0.0.%d:2888:3888:observer;2181", host) }

// A server in no list becomes an observer, serves its clients, and keeps its place when it
// starts again. Reconfig makes it a voter.
func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 5)
		for id := 4; id <= 5; id++ { // both at once
			if _, err := e.tryJoin(id, observerAt(id)); err != nil {
				t.Fatal(err)
			}
		}
		e.awaitMembers("1, 2, 3, 4 (observer), 5 (observer)")
		e.servers[4].connect(t).create("/a", "")
		e.kill(4)
		if _, err := e.tryJoin(4, observerAt(4)); err != nil {
			t.Fatal(err)
		}
		e.settled()
		e.disks[5] = crashfs.New(55)
		e.stop(5)
		if _, err := e.tryJoin(5, observerAt(5)); err != nil { // without its data
			t.Fatal(err)
		}
		e.settled()
		time.Sleep(2 * time.Second) // it is admitted
		if list := e.servers[1].standing.lists.Load().settled; list.String() != "1, 2, 3, 4 (observer), 5 (observer)" {
			t.Errorf("the members are %v", list)
		}
		e.change("1, 2, 3, 4, 5", adding(4, 5))
	})
}

// A removed server does not ask again.
func TestJoinAfterRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 4)
		if _, err := e.tryJoin(4, observerAt(4)); err != nil {
			t.Fatal(err)
		}
		e.awaitMembers("1, 2, 3, 4 (observer)")
		e.change("1, 2, 3", removing(4))
		time.Sleep(15 * time.Second) // it would have asked three times
		e.awaitMembers("1, 2, 3")
	})
}

// A request to join that asks for more than a place as an observer is refused, and so is one
// with an address in use. The server learns, without a vote.
func TestJoinRefused(t *testing.T) {
	for name, tc := range map[string]struct{ join, said string }{
		"address in use": {observerAt(3), "its quorum port, 10.0.0.3:2888, is the quorum port of server.3"},
		"a vote":         {spec(4, "participant")[len("server.4="):], "a server that joins is added as an observer"},
		"another server": {observerAt(4) + ",server.3=" + observerAt(5), "a server that joins is added as an observer"},
		"no client port": {"10.0.0.4:2888:3888:observer", "a joining server needs a port for clients"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startDynamic(t, 3, 4)
				leader := e.servers[e.leader()]
				if _, err := e.tryJoinAs(4, observerAt(4), tc.join); err != nil {
					t.Fatal(err)
				}
				e.await("the leader refuses", func() bool { return leader.said(tc.said) })
				e.settled()
				e.awaitMembers("1, 2, 3")
			})
		})
	}
}

// Two servers take the same id. The first one gets it, and the other stops.
func TestJoinWithAnIDInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 3, 5)
		if _, err := e.tryJoin(4, observerAt(4)); err != nil {
			t.Fatal(err)
		}
		e.awaitMembers("1, 2, 3, 4 (observer)")
		e.stop(4)
		e.disks[4] = crashfs.New(44)
		other, err := e.tryJoin(4, observerAt(5))
		if err != nil {
			t.Fatal(err)
		}
		var halt *HaltError
		if err := <-other.Failed(); !errors.As(err, &halt) || !strings.Contains(err.Error(), "another server joined as server 4, at 10.0.0.4:2888") {
			t.Errorf("it stops with %v", err)
		}
	})
}

// A server with the data of another ensemble is told why it can't join.
func TestJoinWithForeignData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foreign := startDynamic(t, 4, 4)
		foreign.stop(4)
		e := startDynamic(t, 3, 4)
		e.disks[4] = foreign.disks[4]
		s, err := e.tryJoin(4, observerAt(4))
		if err != nil {
			t.Fatal(err)
		}
		e.await("it is told why", func() bool { return s.said("the data of another ensemble?") })
	})
}
