package election_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

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
func oneLeader(o office, s step) (bool, office) {
	switch s.what {
	case "lead":
		return o.leader == 0 && s.token > o.last, office{s.token, s.token}
	case "change":
		return o.leader == s.token, o
	}
	return o.leader == s.token, office{0, o.last}
}

// history is what candidates have done.
type history struct {
	*trial.History[office, step]
	terms atomic.Int64
}

func newHistory(s *trial.Storm) *history { return &history{History: trial.NewHistory(s, oneLeader)} }

func (h *history) check() {
	h.Helper()
	h.Logf("%d terms", h.terms.Load())
	h.Check("two have led at a time")
}

// term is what a leader does while it leads: a few changes. It has led until it released, or
// was deposed. A candidate that is deposed runs again at once, during this function: so it
// may have been elected, and deposed, at any time since it first ran.
func (h *history) term(i int, l tenant, change func() error, ran int64) {
	h.terms.Add(1)
	h.Add(i, step{"lead", l.Token()}, ran)
	for range 3 {
		call := h.Now()
		if h.Explain("guarded change", change(), client.ErrNoNode) {
			h.Add(i, step{"change", l.Token()}, call)
		}
	}
	call := h.Now()
	if err := l.Release(h.Ctx); err != nil {
		call = ran
		if !errors.Is(err, recipes.ErrLost) {
			h.Errorf("release = %v", err)
		}
	}
	h.Add(i, step{"end", l.Token()}, call)
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
		h := newHistory(s)
		var work sync.WaitGroup
		storm, end := s.UntilCalm()
		defer end()
		latches := make([]*election.Latch, s.Clients())
		for i := range latches {
			ran := h.Now()
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
					h.term(i, leadership, func() error {
						return trial.Write(s.Ctx, s.Client(i), leadership)
					}, ran)
				}
			})
		}
		work.Wait()
		h.check()
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
		h := newHistory(s)
		var work sync.WaitGroup
		for i := range s.Clients() {
			work.Go(func() {
				ran := h.Now()
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
						h.term(i, change.Mastership, func() error {
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
						h.Add(i, step{"lead", change.Mastership.Token()}, ran)
						h.Add(i, step{"end", change.Mastership.Token()}, ran)
					}
				}
			})
		}
		work.Wait()
		h.check()
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
