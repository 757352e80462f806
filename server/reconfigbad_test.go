package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// What can go wrong with a change of the members by a command, and which tests attack it.
// Tests without a package are of this one; the names after TestReconfig/ are rounds of test/cluster.
//
//	remove a majority at once            TestReconfigRemovesAMajority, TestReconfigRefusals
//	id in use                            TestJoinWithAnIDInUse; TestPlan (cmd/zkcli/member)
//	address in use                       TestReconfigRefusals; TestChangeRefused (config)
//	data of another ensemble             TestReconfigForeignData, TestJoinWithForeignData
//	unreachable address                  TestReconfigRefusals; TestRun/never_ready (cmd/zkcli/member)
//	during an election                   TestReconfigDuringAnElection; TestReconfig/random
//	leader killed at each step           TestReconfigLeaderKilled; TestReg_NewLeaderTakesOverAChange (sim)
//	joiner killed while it receives      TestReconfig/joiner
//	two clients at once                  TestReconfigTwoAtOnce; TestReconfig/random
//	BadVersion                           TestReconfigRefusals; TestRun/another_change_meanwhile (cmd/zkcli/member)
//	old file, and none of the old peers  TestReconfigOldFile, TestReconfigMovedAway
//	removed server started again         TestReconfigRemovedServer, TestReconfigRemovedServerFindsOtherMembers,
//	                                     TestJoinAfterRemoval; TestReg_LeaderThatIsNoVoterGoes (sim)
//	old and new majority cut apart       TestReconfigCutApart; TestReg_OldMembersDecideOnAChange (sim)
//	disk full while the file is written  TestReconfigSavesTheMembers; TestSaveMembersFullDisk (config)
//	rolling restart during a change      TestReconfig/rolling
//	a third runs the previous build      TestReconfig -previous
//
// The random changes of package sim do all of this to the core, but for files and addresses.

// Three of five servers leave in one change. When too few of those who stay are up, the change
// is refused, and the ensemble serves as before.
func TestReconfigRemovesAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startDynamic(t, 5, 5)
		away := 4
		if e.leader() == away {
			away = 5
		}
		e.stop(away)
		time.Sleep(2 * time.Second) // the leader notices
		if r := e.servers[e.leader()].connect(t).call(jute.OpReconfig, removing(1, 2, 3)); r.Err != jute.ErrNewConfigNoQuorum {
			t.Errorf("two are to stay, and one of them is up: %v", r.Err)
		}
		e.servers[e.leader()].connect(t).create("/a", "1")
		e.start(away)
		time.Sleep(2 * time.Second)
		e.change("4, 5", removing(1, 2, 3))
		for id := 1; id <= 3; id++ {
			e.stop(id)
		}
		c := e.servers[e.leader()].connect(t)
		if v, _ := c.get("/a"); v != "1" {
			t.Errorf("read %q", v)
		}
		c.create("/b", "1")
	})
}

// A client asks for a change again and again while there is no leader. It is made once there
// is one.
func TestReconfigDuringAnElection(t *testing.T) {
	for _, after := range []time.Duration{0, 1, 10, 100, 500, 1000, 1500} {
		t.Run((after * time.Millisecond).String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startDynamic(t, 3, 4)
				e.join(4, "1 2 3")
				leader := e.leader()
				c := e.servers[leader%3+1].connect(t) // a follower
				e.kill(leader)
				time.Sleep(after * time.Millisecond)
				c.nc.Write(frameOf(requestFrame(1, jute.OpReconfig, adding(4)))) // its connection may be gone
				e.change("1, 2, 3, 4", adding(4))
				e.start(leader)
				e.awaitMembers("1, 2, 3, 4")
				e.settled()
				if list := e.servers[leader].standing.lists.Load(); list.settled.Version != list.newest.Version {
					t.Errorf("the members are %v, and %v are under way", list.settled, list.newest)
				}
			})
		})
	}
}

// In the middle of a change the network falls into a majority of the old members and all of
// the new ones. Only one part may lead, and afterwards all have the same members and data.
func TestReconfigCutApart(t *testing.T) {
	for _, after := range []time.Duration{0, 1, 2, 5, 10, 20, 50, 100, 200, 500} {
		t.Run((after * time.Millisecond).String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startDynamic(t, 3, 5)
				e.net.setRate(1 << 20)
				e.join(4, "1 2 3")
				e.join(5, "1 2 3")
				e.servers[e.leader()].connect(t).send(jute.OpReconfig, &jute.ReconfigRequest{ConfigID: -1, Leaving: "1,2",
					Joining: spec(4, "participant") + "," + spec(5, "participant")})
				time.Sleep(after * time.Millisecond)
				e.split([]int{1, 2}, []int{3, 4, 5}, true)
				time.Sleep(2 * time.Second) // a leader without a quorum notices it
				written := 0
				for range 100 {
					time.Sleep(100 * time.Millisecond)
					list := e.leaders()
					if len(list) > 1 {
						t.Fatalf("%v lead: %s", list, e.roles())
					}
					if len(list) == 1 && e.servers[list[0]].service.serving.Load() {
						e.servers[list[0]].connect(t).create(fmt.Sprint("/w", written), "")
						written++
					}
				}
				e.split([]int{1, 2}, []int{3, 4, 5}, false)
				c := e.servers[e.leader()].connect(t)
				e.settled()
				for i := range written {
					if !c.exists(fmt.Sprint("/w", i)) {
						t.Errorf("/w%d is lost", i)
					}
				}
				switch list := e.servers[e.leader()].standing.lists.Load().settled.String(); list {
				case "1, 2, 3", "3, 4, 5":
					t.Logf("the members are %s, and there were %d writes", list, written)
				default:
					t.Errorf("the members are %s", list)
				}
			})
		})
	}
}
