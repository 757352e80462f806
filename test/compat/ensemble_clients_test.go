//go:build compat

package compat

import (
	"fmt"
	"testing"
	"time"
)

// onEnsemble calls run with connect strings of fresh ensembles of the target: with
// a follower alone, and with all three servers, or the leader alone for clients
// that can't do with what another server has not heard yet.
func onEnsemble(t *testing.T, all bool, run func(t *testing.T, hosts ...string)) {
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
	t.Parallel()
	run := javaClient(t)
	onEnsemble(t, true, run)
}

func TestEnsembleCurator(t *testing.T) {
	t.Parallel()
	run := curatorPrograms(t, "CuratorProgram")
	onEnsemble(t, true, run)
}

func TestEnsembleC(t *testing.T) {
	program := compileC(t, "client")
	onEnsemble(t, false, func(t *testing.T, hosts ...string) { runProgram(t, program, hosts...) })
}

func TestEnsembleGoZookeeper(t *testing.T) {
	onEnsemble(t, true, func(t *testing.T, hosts ...string) { goSuite(t, hosts[0]) })
}

const (
	quickFaults, fullFaults = 20 * time.Second, 5 * time.Minute
	// betweenFaults is how long an ensemble is whole, after it has healed.
	betweenFaults = time.Second
)

// TestEnsembleFaults runs java/curator/FaultsProgram while the leader is killed
// and started again, time after time. The program says what must hold.
func TestEnsembleFaults(t *testing.T) {
	t.Parallel()
	run := curatorPrograms(t, "FaultsProgram")
	e := startEnsemble(t, target(t), config{})
	took := quickFaults
	if *fullFlag {
		took = fullFaults
	}
	done, kills := make(chan struct{}), make(chan int)
	go func() { kills <- e.killLeaders(t, done) }()
	run(t, e.hosts(), fmt.Sprint(int(took.Seconds())))
	close(done)
	n := <-kills
	t.Logf("%d leaders killed in %v", n, took)
	if n < 2 {
		t.Errorf("only %d leaders were killed", n)
	}
}

// killLeaders kills the leader and starts it again, until done is closed, and
// tells how often.
func (e *ensemble) killLeaders(t *testing.T, done <-chan struct{}) (kills int) {
	for {
		select {
		case <-done:
			return kills
		case <-time.After(betweenFaults):
		}
		roles, ok := e.roles()
		if !ok {
			continue // it was whole a moment ago; perhaps a slow answer
		}
		roles[leader].kill()
		kills++
		if err := e.heal(); err != nil {
			t.Errorf("after kill %d: %v", kills, err)
			<-done
			return kills
		}
	}
}
