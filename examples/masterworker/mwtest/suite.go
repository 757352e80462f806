package mwtest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/examples/masterworker/program"
)

// tests are what a system has to pass.
var tests = []struct {
	name string
	run  func(w *world)
}{
	{"AllIsDone", allIsDone},
	{"AdminSeesNothing", adminSeesNothing},
	{"AdminSeesAll", adminSeesAll},
	{"MasterFailsOver", masterFailsOver},
	{"HalfDoneWorkIsTakenOver", halfDoneWorkIsTakenOver},
	{"DeadWorkersTasksGoToOthers", deadWorkersTasksGoToOthers},
	{"LateResultIsDropped", lateResultIsDropped},
	{"TwoMastersOfAName", twoMastersOfAName},
	{"TaskOfALeavingWorker", taskOfALeavingWorker},
	{"NothingForWhoIsGone", nothingForWhoIsGone},
	{"OldMasterIsFenced", oldMasterIsFenced},
	{"OnceWhileAssigned", onceWhileAssigned},
	{"OnceWhileDone", onceWhileDone},
	{"OnceInTwoSessions", onceInTwoSessions},
	{"WithoutAnIDTwice", withoutAnIDTwice},
	{"FailedIsAResult", failedIsAResult},
	{"WorkerEndsCleanly", workerEndsCleanly},
	{"MasterEndsCleanly", masterEndsCleanly},
	{"OneOfAName", oneOfAName},
	{"TasksWaitForWorkers", tasksWaitForWorkers},
	{"BadID", badID},
}

// storms are how many there are, each with a seed of its own.
const storms = 3

// Run has a system pass all tests: on a server of its own, or on those that
// zktest.ServersVariable names.
func Run(t *testing.T, sys program.System) {
	servers := zktest.Target(t, 1)
	t.Run("all", func(t *testing.T) { // returns when the parallel tests have ended
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				test.run(newWorld(t, sys, servers))
			})
		}
		t.Run("Faults", func(t *testing.T) { faults(t, sys, servers) })
		first := rand.Uint64N(1 << 32)
		for seed := first; seed < first+storms; seed++ {
			t.Run(fmt.Sprintf("Storm-%d", seed), func(t *testing.T) { storm(t, sys, seed) })
		}
	})
}
