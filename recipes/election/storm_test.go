package election_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// step is what a candidate has done: begun to lead, made a guarded change, or ended to lead.
type step struct {
	what  string // "lead", "change", "end"
	token client.Zxid
}

// office is the state of the model: the token of the leader, or 0, and that of the last one.
type office struct{ leader, last client.Zxid }

// oneLeader is what an election promises: one leads at a time, tokens grow, and only the
// leader can make a guarded change.
var oneLeader = porcupine.Model{
	Init: func() any { return office{} },
	Step: func(state, input, _ any) (bool, any) {
		o, s := state.(office), input.(step)
		switch s.what {
		case "lead":
			return o.leader == 0 && s.token > o.last, office{s.token, s.token}
		case "change":
			return o.leader == s.token, o
		}
		return o.leader == s.token, office{0, o.last}
	},
}

// history is what candidates have done, and when.
type history struct {
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func (h *history) now() int64 { return time.Since(h.began).Nanoseconds() }

func (h *history) add(client int, s step, call, ret int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: s, Call: call, Return: ret})
}

func (h *history) check(s *trial.Storm) {
	s.Helper()
	switch porcupine.CheckOperationsTimeout(oneLeader, h.ops, time.Minute) {
	case porcupine.Illegal:
		s.Errorf("two have led at a time: %v", h.ops)
	case porcupine.Unknown:
		s.Logf("undecided: Porcupine does not get through %d steps", len(h.ops))
	}
}

// term is what a leader does while it leads: a few changes. It has led until it released, or
// was deposed. A candidate that is deposed runs again at once, during this function: so it
// may have been elected, and deposed, at any time since it first ran.
func (h *history) term(s *trial.Storm, i int, l tenant, change func() error, ran int64) {
	h.add(i, step{"lead", l.Token()}, ran, h.now())
	for range 3 {
		call := h.now()
		err := change()
		if err == nil {
			h.add(i, step{"change", l.Token()}, call, h.now())
		} else if !trial.Passing(err) && !errors.Is(err, client.ErrNoNode) {
			s.Errorf("guarded change = %v", err)
		}
	}
	call := h.now()
	err := l.Release(s.Ctx)
	if err != nil {
		call = ran
		if !errors.Is(err, recipes.ErrLost) {
			s.Errorf("release = %v", err)
		}
	}
	h.add(i, step{"end", l.Token()}, call, h.now())
}

// tenant is a Leadership or a Mastership.
type tenant interface {
	Token() client.Zxid
	Release(ctx context.Context) error
}

// Latches lead and release while connections break, sessions end and leaders of the servers
// are killed. There is one leader at a time, and when it is calm again there is one.
func TestStormLatch(t *testing.T) {
	trial.Storms(t, trial.Weather{Faults: 40, Renew: true}, func(s *trial.Storm) {
		h := &history{began: time.Now()}
		var terms atomic.Int64
		var work sync.WaitGroup
		storm, calm := context.WithCancel(s.Ctx)
		go func() {
			<-s.Calm
			calm()
		}()
		latches := make([]*election.Latch, s.Clients())
		for i := range latches {
			ran := h.now()
			l := start(s, s.Client(i), "/leader", election.Options{})
			latches[i] = l
			work.Go(func() {
				for !s.Over() {
					leadership, err := l.Await(storm)
					if storm.Err() != nil { // the leader then continues to lead
						return
					}
					if err != nil {
						s.Errorf("await = %v", err)
						return
					}
					terms.Add(1)
					h.term(s, i, leadership, func() error {
						return trial.Write(s.Ctx, s.Client(i), leadership)
					}, ran)
				}
			})
		}
		work.Wait()
		s.Logf("%d terms", terms.Load())
		h.check(s)
		for _, l := range latches { // each has its turn, whichever is the first
			work.Go(func() {
				leadership, err := l.Await(s.Ctx)
				if err != nil {
					s.Errorf("nobody leads after the storm: %v", err)
					return
				}
				if leader, ok, err := l.Election().Leader(s.Ctx); err != nil || !ok || leader.Token != leadership.Token() {
					s.Errorf("leader is %+v, %v, %v, and not %v", leader, ok, err, leadership.Token())
				}
				if err := l.Close(s.Ctx); err != nil {
					s.Error(err)
				}
			})
		}
		work.Wait()
	})
}

// Masters of both kinds do so, too, one after the other. The change that a master makes is
// not guarded: so it counts only if the node is the master's own before and after it.
func TestStormMaster(t *testing.T) {
	trial.Storms(t, trial.Weather{Faults: 40, Renew: true}, func(s *trial.Storm) {
		h := &history{began: time.Now()}
		var terms atomic.Int64
		var work sync.WaitGroup
		for i := range s.Clients() {
			work.Go(func() {
				ran := h.now()
				r := ways[i%2].start(s, s.Client(i), "/master", "")
				for {
					select {
					case change := <-r.changes:
						if change.State == election.Over && !errors.Is(change.Err, recipes.ErrClosed) {
							s.Errorf("it is over: %v", change.Err)
						}
						if change.State != election.Leading {
							continue
						}
						terms.Add(1)
						h.term(s, i, change.Mastership, func() error {
							return stillMaster(s, s.Client(i), r.master, change.Mastership)
						}, ran)
						continue
					case <-s.Calm:
					case <-s.Ctx.Done():
					}
					break
				}
				if err := r.close(s.Ctx); err != nil {
					s.Error(err)
				}
				for len(r.changes) > 0 { // a term that began after the storm
					if change := <-r.changes; change.State == election.Leading {
						h.add(i, step{"lead", change.Mastership.Token()}, ran, h.now())
						h.add(i, step{"end", change.Mastership.Token()}, ran, h.now())
					}
				}
			})
		}
		work.Wait()
		s.Logf("%d terms", terms.Load())
		h.check(s)
		last := newMaster(s, s.Look, "/master", "last")
		if err := last.Run(s.Ctx, func(context.Context, *election.Mastership) error { return nil }); err != nil {
			s.Errorf("nobody is master after the storm: %v", err)
		}
	})
}

// stillMaster succeeds if the servers have the master's node at some time while it runs.
// A server that lags may still have it after its deletion, and so must catch up before.
func stillMaster(s *trial.Storm, c *client.Client, m *election.Master, ms *election.Mastership) error {
	if err := c.Sync(s.Ctx, m.Path()); err != nil {
		return err
	}
	now, ok, err := m.Current(s.Ctx)
	if err == nil && (!ok || now.Token != ms.Token()) {
		return client.ErrNoNode
	}
	return err
}
