package server

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/behavior"
)

var (
	behaviorsFlag = flag.String("behaviors", "", "TestBehaviors: write the behaviors of the runs for TLC to this file")
	behaviorRuns  = flag.Uint64("behaviorruns", 1, "TestBehaviors: how many runs")
)

// TestBehaviors runs ensembles of whole servers that lose power and links, and writes down what they did. scripts/spec.sh has TLC judge it.
func TestBehaviors(t *testing.T) {
	var runs []behavior.Run
	for seed := seeds.First(t); uint64(len(runs)) < *behaviorRuns; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runs = append(runs, behave(t, seed)) })
		})
	}
	if *behaviorsFlag != "" {
		check(t, behavior.WriteModule(*behaviorsFlag, runs))
	}
}

// observed is what a process has given to its log, and has not been said to be durable.
type observed struct {
	s       *Server
	seen    bool
	leads   bool
	records []observedRecord
}

type observedRecord struct {
	number uint64 // of the log
	kind   zab.LogOpKind
}

// note notes an output of the server's core.
func (o *observed) note(r *behavior.Recorder, out *replica.Output) {
	l, id := o.s.loop, o.s.id
	core := l.replica.Core
	if !o.seen {
		o.seen = true
		r.Starts(id, l.identity.Incarnation)
	}
	o.durable(r)
	if o.leads {
		r.Commits(id, core.Committed(), true)
	}
	role := core.Status().Role
	number := uint64(math.MaxUint64) // if the log has failed
	if all := l.logged.All(); len(all) > 0 && all[len(all)-1].seq == out.PersistSeq {
		number = all[len(all)-1].wal - uint64(len(out.Persist)-1)
	}
	for i := range out.Persist {
		r.Writes(id, &out.Persist[i], role)
		o.records = append(o.records, observedRecord{number, out.Persist[i].Kind})
		number = max(number, number+1)
	}
	r.Commits(id, core.Committed(), false)
	o.leads = role == zab.Leading || role == zab.SyncingLeader
	for i := range out.Send {
		r.Sends(id, &out.Send[i].Msg)
	}
}

// durable notes what has become durable.
func (o *observed) durable(r *behavior.Recorder) {
	for len(o.records) > 0 && o.records[0].number <= o.s.logWriter.durable.Load() {
		r.Durable(o.s.id, o.records[0].kind)
		o.records = o.records[1:]
	}
}

// behave runs three servers.
func behave(t *testing.T, seed uint64) behavior.Run {
	rng := rand.New(rand.NewPCG(seed, 1))
	r := new(behavior.Recorder)
	e := newEnsemble(t, 3)
	for id := 1; id <= 3; id++ {
		e.disks[id] = crashfs.New(uint64(id))
	}
	var processes [4]*observed
	e.tune = func(s *Server) {
		o := &observed{s: s}
		processes[s.id] = o
		s.opts.seen = func(out *replica.Output) { o.note(r, out) }
	}
	e.startAll()
	e.leader()
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 2 {
		n := &counter{t: t, e: e, rng: rand.New(rand.NewPCG(seed, uint64(10+i))), path: fmt.Sprintf("/counter%d", i)}
		clients.Go(func() { n.runSlowly(stop) })
	}
	for range 8 {
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		if id := 1 + rng.IntN(3); e.servers[id] == nil {
			e.start(id)
		} else if rng.IntN(2) == 0 {
			e.kill(id)
			processes[id].durable(r)
		} else {
			e.cut(id, true)
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
			e.cut(id, false)
		}
	}
	close(stop)
	clients.Wait()
	return r.Run()
}

// runSlowly writes from time to time, and connects for each write.
func (n *counter) runSlowly(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(n.rng.IntN(1000)) * time.Millisecond):
		}
		if n.attach() && n.check() {
			n.tried = max(n.tried, n.acked) + 1
			if r, ok := n.call(jute.OpSetData, set(n.path, strconv.Itoa(n.tried))); ok && r.Err == 0 {
				n.acked = n.tried
			}
		}
	}
}
