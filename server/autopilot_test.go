package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// startPiloted starts an ensemble with autopilot after 10 s.
func startPiloted(t *testing.T, size int) *testEnsemble {
	return startDynamic(t, size, size, "zkd.autopilot=10000", "audit.enable=true", "zkd.audit.file="+auditFile)
}

// untilDemoted stops a follower, and waits until autopilot has made it an observer.
func (e *testEnsemble) untilDemoted() (id int) {
	e.t.Helper()
	id = e.follower()
	e.kill(id)
	time.Sleep(9 * time.Second)
	if now := e.servers[e.leader()].standing.lists.Load().newest; now.NumVoters() != e.size {
		e.t.Errorf("after 9 s, the members are %v", now)
	}
	e.await("it is demoted", func() bool { return len(e.now().Demoted()) == 1 })
	return id
}

// now returns the members that decide, by the server with the latest list.
func (e *testEnsemble) now() *zab.Members {
	var list *zab.Members
	for _, s := range e.servers {
		if s != nil && (list == nil || s.standing.lists.Load().settled.Version > list.Version) {
			list = s.standing.lists.Load().settled
		}
	}
	return list
}

// whole waits until all servers are voters, and writes something.
func (e *testEnsemble) whole() {
	e.t.Helper()
	e.await("all are voters", func() bool { return e.now().NumVoters() == e.size })
	e.settled()
	e.servers[e.leader()].connect(e.t).create("/whole", "")
}

// A voter that is gone becomes an observer, and a voter again when it is back. Clients are
// told, in a line that only zkcli reads. Both changes are in the leader's audit log.
func TestAutopilot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startPiloted(t, 5)
		id := e.untilDemoted()
		leader := e.servers[e.leader()]
		text, _ := leader.connect(t).get(datatree.ConfigPath)
		line, mark := fmt.Sprintf("server.%d=%s:3888:observer\n", id, peerAddr(id)), fmt.Sprintf("\n# demoted by autopilot: %d\nversion=", id)
		if !strings.Contains(text, mark) || !strings.Contains(text, line) || leader.metrics.Demoted.Load() != 1 {
			t.Errorf("the members are %q", text)
		}
		e.start(id)
		e.whole()
		if text, _ := leader.connect(t).get(datatree.ConfigPath); strings.Contains(text, "autopilot") || leader.metrics.Promoted.Load() != 1 {
			t.Errorf("the members are %q", text)
		}
		synctest.Wait()
		change := "user=" + audit.SystemUser() + " operation=reconfig znode=/zookeeper/config result=success"
		equalLines(t, slices.DeleteFunc(auditLines(t, leader.opts.FS, nil), func(line string) bool { return !strings.Contains(line, "reconfig") }),
			[]string{change, change})
	})
}

// A new leader counts from when it begins to lead.
func TestAutopilotAfterAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startPiloted(t, 5)
		gone := e.follower()
		e.kill(gone)
		time.Sleep(8 * time.Second)
		old := e.leader()
		e.kill(old)
		time.Sleep(9 * time.Second)
		if now := e.now(); now.NumVoters() != 5 {
			t.Errorf("the members are %v", now)
		}
		e.start(old)
		e.await("it is demoted", func() bool { return len(e.now().Demoted()) == 1 && e.now().Find(zab.SID(gone)).Demoted })
		e.kill(e.leader())
		e.start(gone)
		e.await("it is a voter again", func() bool { return !e.now().Find(zab.SID(gone)).Observer })
	})
}

// Two of five are gone: the three that are left can lose another one.
func TestAutopilotTwoGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startPiloted(t, 5)
		var gone []int
		for range 2 {
			id := e.follower()
			e.kill(id)
			gone = append(gone, id)
		}
		e.await("both are demoted", func() bool { return len(e.now().Demoted()) == 2 })
		third := e.follower()
		e.kill(third)
		e.servers[e.leader()].connect(t).create("/a", "1")
		time.Sleep(time.Minute)
		if now := e.now(); now.NumVoters() != 3 {
			t.Errorf("the members are %v", now)
		}
		for _, id := range append(gone, third) {
			e.start(id)
		}
		e.whole()
	})
}

// Of three members nobody is demoted.
func TestAutopilotOfThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startPiloted(t, 3)
		before := e.now().Version
		e.kill(e.follower())
		time.Sleep(time.Minute)
		if now := e.now(); now.Version != before {
			t.Errorf("the members are %v", now)
		}
	})
}

// What an operator says about a demoted server counts, and what it says about others changes
// nothing for it.
func TestAutopilotAndCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startPiloted(t, 5)
		id := e.untilDemoted()
		other := e.follower()
		change := func(r *jute.ReconfigRequest) { e.servers[e.leader()].connect(t).ok(jute.OpReconfig, r) }
		change(&jute.ReconfigRequest{Joining: spec(other, "observer"), ConfigID: -1})
		if now := e.now(); !now.Find(zab.SID(id)).Demoted || now.Find(zab.SID(other)).Demoted {
			t.Errorf("the members are %v", now)
		}
		change(&jute.ReconfigRequest{Joining: spec(id, "observer"), ConfigID: -1})
		e.start(id)
		e.settled()
		time.Sleep(time.Minute)
		if now := e.now(); now.NumVoters() != 3 || len(now.Demoted()) > 0 {
			t.Errorf("the members are %v", now)
		}
		change(adding(id, other))
		e.whole()
	})
}

// The mark is in the history: all servers lose their power, and then the demoted one is back.
func TestAutopilotAllRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startPiloted(t, 5)
		id := e.untilDemoted()
		for one := 1; one <= e.size; one++ {
			if one != id {
				e.kill(one)
			}
		}
		for one := 1; one <= e.size; one++ {
			if one != id {
				e.start(one)
			}
		}
		e.leader()
		if now := e.now(); !now.Find(zab.SID(id)).Demoted {
			t.Errorf("the members are %v", now)
		}
		e.start(id)
		e.whole()
	})
}
