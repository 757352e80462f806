//go:build compat

package compat

import (
	"testing"
)

// onEnsemble calls run with connect strings of an ensemble of the target, each on
// an empty tree: a follower, the leader, and, where the clients can do with what
// another server has not heard yet, all three.
func onEnsemble(t *testing.T, all bool, run func(t *testing.T, hosts string)) {
	t.Helper()
	e := startEnsemble(t, target(t), config{lines: []string{"tickTime=2000"}})
	roles, ok := e.roles()
	if !ok {
		t.Fatal("the ensemble is not healthy")
	}
	cases := []struct{ name, hosts string }{{"follower", roles[follower].addr}, {"leader", roles[leader].addr}}
	if all {
		cases[1].name, cases[1].hosts = "all", e.hosts()
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { run(t, c.hosts) })
		w := newWorld(roles[leader])
		w.hushed(w.cleanUp)
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
