//go:build compat

package compat

import (
	"testing"
)

// onEnsemble calls run with connect strings of fresh ensembles of the target: with
// a follower alone, and with all three servers, or the leader alone for clients
// that can't do with what another server has not heard yet.
func onEnsemble(t *testing.T, all bool, run func(t *testing.T, hosts string)) {
	t.Helper()
	on := func(name string, hosts func(e *ensemble, roles [3]*server) string) {
		t.Run(name, func(t *testing.T) {
			e := startEnsemble(t, target(t), config{lines: []string{"tickTime=2000"}})
			roles, ok := e.roles()
			if !ok {
				t.Fatal("the ensemble is not healthy")
			}
			run(t, hosts(e, roles))
		})
	}
	on("follower", func(_ *ensemble, roles [3]*server) string { return roles[follower].addr })
	if all {
		on("all", func(e *ensemble, _ [3]*server) string { return e.hosts() })
	} else {
		on("leader", func(_ *ensemble, roles [3]*server) string { return roles[leader].addr })
	}
}

func TestEnsembleJava(t *testing.T) {
	run := javaClient(t)
	onEnsemble(t, true, run)
}

func TestEnsembleCurator(t *testing.T) {
	run := curatorPrograms(t, "CuratorProgram")
	onEnsemble(t, true, run)
}

func TestEnsembleC(t *testing.T) {
	program := compileC(t)
	onEnsemble(t, false, func(t *testing.T, hosts string) { runProgram(t, program, hosts) })
}

func TestEnsembleGoZookeeper(t *testing.T) { onEnsemble(t, true, goSuite) }
