package main

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/examples/internal/process"
)

// tests are the scenes of TestSystem, each in a separate world.
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

func TestMain(m *testing.M) {
	process.Main(main)
	goleak.VerifyTestMain(m)
}

func TestSignals(t *testing.T) {
	for role, ready := range map[string]string{"master": "is the master", "worker": "is here"} {
		t.Run(role, func(t *testing.T) {
			process.EndsOnSignals(t, ready, 0, func(servers string) []string { return []string{role, "-servers", servers} })
		})
	}
}

// TestSystem runs on a separate server, or on those that zktest.ServersVariable names.
func TestSystem(t *testing.T) {
	servers := zktest.Target(t, 1)
	t.Run("all", func(t *testing.T) { // returns when the parallel tests have ended
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				test.run(newWorld(t, servers))
			})
		}
		t.Run("Faults", func(t *testing.T) { faults(t, servers) })
		storms := uint64(3)
		if testing.Short() {
			storms = 1
		}
		for seed := range storms {
			t.Run(fmt.Sprintf("Storm-%d", seed), func(t *testing.T) { storm(t, seed) })
		}
	})
}
