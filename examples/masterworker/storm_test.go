package main

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// A storm has so many faults, and so many tasks are queued with each.
const (
	stormFaults = 16
	stormTasks  = 6
)

// storm breaks connections, ends the sessions of masters and workers, and kills the leader
// of the servers (if the test has started them), in random order, while tasks are queued. In
// the end each task has been done. The seed decides on the faults, but not on how the
// machine interleaves the programs.
func storm(t *testing.T, seed uint64) {
	t.Parallel()
	s := &stormy{rng: rand.New(rand.NewPCG(seed, 0))}
	if zktest.External() {
		s.world = newWorld(t, zktest.Target(t, 1))
	} else {
		s.ensemble = zktest.StartEnsemble(t, 3)
		s.world = newWorld(t, s.ensemble.Proxy)
	}
	for i := range 2 {
		s.masters = append(s.masters, s.master(fmt.Sprintf("m%d", i+1), s.lane()))
	}
	for i := range 3 {
		s.workers = append(s.workers, s.worker(fmt.Sprintf("w%d", i+1), s.lane(), Upper))
	}
	client := s.lane()
	var batches []*submission
	for i := range stormFaults {
		batch := s.submit(client, s.tasks(i)...)
		batches = append(batches, batch)
		s.fault(i, client)
		if i%2 == 1 { // else the next fault finds this one's tasks still there
			batch.wait(s.world)
		}
	}
	s.check(batches)
}

// stormy is a world in a storm.
type stormy struct {
	*world
	rng      *rand.Rand
	ensemble *zktest.Ensemble // nil if the servers are others'
	masters  []*role
	workers  []*role
}

// tasks are those of a batch: half of them are to be queued once.
func (s *stormy) tasks(batch int) (tasks []Task) {
	for i := range stormTasks {
		id := ""
		if i%2 == 0 {
			id = fmt.Sprintf("%d-%d", batch, i)
		}
		tasks = append(tasks, task(id, text(batch, i)))
	}
	return tasks
}

func text(batch, i int) string { return fmt.Sprintf("x%d-%d", batch, i) }

// fault lets one happen: the first four of each kind, then any.
func (s *stormy) fault(i int, client *lane) {
	kind := i
	if i >= 4 {
		kind = s.rng.IntN(5)
	}
	master, worker := s.masters[s.rng.IntN(len(s.masters))], s.workers[s.rng.IntN(len(s.workers))]
	switch kind {
	case 0:
		if s.ensemble != nil {
			s.Log("storm: kill the leader")
			s.ensemble.Restart(s.ensemble.KillLeader())
		}
	case 1:
		active := s.state().Master
		s.Logf("storm: end the session of the master, %q", active)
		for i, m := range s.masters {
			if active == fmt.Sprintf("m%d", i+1) {
				m.expire()
			}
		}
	case 2:
		s.Log("storm: end the session of a worker")
		worker.expire()
	default:
		for _, l := range []*lane{master.lane, worker.lane, client} {
			s.cut(l)
		}
	}
}

// cut breaks a connection, at one of the next requests if there are any. What it
// doesn't meet now it may meet later.
func (s *stormy) cut(l *lane) {
	m := zktest.Nth(1+s.rng.IntN(8), zktest.Any())
	var cut *zktest.Cut
	if s.rng.IntN(2) == 0 {
		cut = l.CutBefore(m)
	} else {
		cut = l.CutAfter(m)
	}
	s.Cleanup(cut.Cancel)
}

// check checks the end.
func (s *stormy) check(batches []*submission) {
	for b, batch := range batches {
		got := batch.wait(s.world)
		var want []string
		for i := range stormTasks {
			want = append(want, fmt.Sprintf("done: X%d-%d", b, i))
		}
		s.equal(got, want...)
	}
	done := s.settled().Done
	if len(done) < stormFaults*stormTasks {
		s.Errorf("%d tasks have %d results", stormFaults*stormTasks, len(done))
	}
	for b := range stormFaults {
		for i := 0; i < stormTasks; i += 2 {
			s.queuedOnce(done, fmt.Sprintf("%d-%d", b, i))
		}
	}
}

// queuedOnce checks that a task was queued once.
func (s *stormy) queuedOnce(done []string, id string) {
	n := 0
	for _, name := range done {
		if layout.IsTask(name, id) {
			n++
		}
	}
	if n != 1 {
		s.Errorf("the task with the id %s was queued %d times", id, n)
	}
}
