package ensemble

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/cmd/zkcli/why"
	"github.com/zkd-project/zkd/server/api"
)

// Ensemble asks members, as zkcli why does.
type Ensemble struct {
	Servers []string // those that are asked first: they name the others
	Self    int64    // the id of the server that answers for the ensemble; 0 for none
	ask     func(ctx context.Context, addrs []string) why.Facts

	asking sync.WaitGroup
	ending chan struct{}

	mu     sync.Mutex
	last   *api.Ensemble
	at     time.Time
	load   load
	asked  chan struct{} // closed when the members have been asked; nil if nobody asks them
	giveUp context.CancelFunc
	closed bool
}

const (
	// fresh is for how long the members are not asked again, however many callers there are.
	fresh = 4 * time.Second
	// stale is the age up to which an answer is given while the members are asked again.
	stale = 15 * time.Second
)

// New returns an ensemble that an asker asks.
func New(asker servers.Asker, self int64, addrs ...string) *Ensemble {
	e := servers.Examination{Asker: asker, Limit: 2 * time.Second, Interval: time.Second}
	return &Ensemble{Servers: addrs, Self: self, ask: e.Examine, ending: make(chan struct{})}
}

// Start asks the members each minute from now on, so that their load of the last hour is known to the first caller.
func (e *Ensemble) Start() {
	e.asking.Go(func() {
		tick := time.NewTicker(loadStep)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				e.renew()
			case <-e.ending:
				return
			}
		}
	})
}

// Look returns how the members are, or nil if ctx ends before that is known. One goroutine at a time asks them, for all callers.
func (e *Ensemble) Look(ctx context.Context) *api.Ensemble {
	last, age, asked := e.renew()
	if last != nil && age <= stale {
		return last
	}
	select {
	case <-asked:
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.last
	case <-ctx.Done():
		return nil
	}
}

// renew asks the members if their last answer is not fresh. It returns that answer, its age, and what is closed when there is
// another one.
func (e *Ensemble) renew() (last *api.Ensemble, age time.Duration, asked <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	age = time.Since(e.at)
	if e.asked == nil && !e.closed && (e.last == nil || age > fresh) {
		e.asked = make(chan struct{})
		var ctx context.Context
		ctx, e.giveUp = context.WithCancel(context.Background())
		e.asking.Go(func() { e.askAll(ctx) })
	}
	return e.last, age, e.asked
}

// askAll asks the members. That takes at most some seconds, and is for all callers.
func (e *Ensemble) askAll(ctx context.Context) {
	facts := e.ask(ctx, e.Servers)
	next := e.describe(&facts)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last, e.at = next, time.Now()
	e.load.note(e.at.UnixMilli(), facts.Servers)
	next.Load = e.load.samples
	e.giveUp()
	close(e.asked)
	e.asked = nil
}

// Close ends the asking. The members are not asked any more.
func (e *Ensemble) Close() {
	e.mu.Lock()
	if !e.closed {
		close(e.ending)
	}
	e.closed = true
	if e.asked != nil {
		e.giveUp()
	}
	e.mu.Unlock()
	e.asking.Wait()
}

// describe returns the records of an answer.
func (e *Ensemble) describe(facts *why.Facts) *api.Ensemble {
	out := &api.Ensemble{At: facts.Now, Self: e.Self, Complete: facts.Complete, Members: []api.Peer{}, Findings: []api.Finding{}}
	var newest uint64
	for i := range facts.Servers {
		s := &facts.Servers[i]
		newest = max(newest, zxidOf(s))
	}
	voters, up := 0, 0
	for i := range facts.Servers {
		p := describePeer(&facts.Servers[i], facts.Interval, newest)
		if p.Voter {
			voters++
			if p.Problem == "" {
				up++
			}
		}
		out.Members = append(out.Members, p)
	}
	out.MayFail = int64(up - (voters/2 + 1))
	for _, f := range why.Find(*facts) {
		out.Findings = append(out.Findings, api.Finding{ID: f.ID, Severity: f.Severity.String(), Servers: append([]string{}, f.Servers...),
			What: f.What, SinceMs: f.Since.Milliseconds(), Do: f.Do})
	}
	return out
}

// zxidOf returns the zxid of a server at the later of the two times at which it was asked.
func zxidOf(s *why.Server) uint64 { return cmp.Or(s.After.Zxid, s.Before.Zxid) }

// describePeer returns the record of a member.
func describePeer(s *why.Server, interval time.Duration, newest uint64) api.Peer {
	p := api.Peer{Name: s.Name, ID: s.ID, Role: cmp.Or(s.Mode, "unknown"), Voter: !s.Observer && s.Mode != why.Standby, Version: s.Version, Lag: -1, Requests: -1, Clients: -1, Silent: s.Unanswered}
	switch {
	case s.Unreachable != "":
		p.Role, p.Problem = "unreachable", s.Unreachable
		return p
	case s.NotServing:
		p.Role, p.Problem = "not-serving", cmp.Or(s.Detail, "it finds no quorum")
		return p
	}
	zxid := zxidOf(s)
	p.Zxid = "0x" + strconv.FormatUint(zxid, 16)
	if zxid>>32 == newest>>32 { // else it is of another leader's time, and zxids can't be counted
		p.Lag = int64(newest - zxid)
	}
	if n, err := strconv.ParseInt(s.After.Metrics["num_alive_connections"], 10, 64); err == nil {
		p.Clients = n
	}
	before, err1 := strconv.ParseInt(s.Before.Metrics["packets_received"], 10, 64)
	after, err2 := strconv.ParseInt(s.After.Metrics["packets_received"], 10, 64)
	if err1 == nil && err2 == nil && after >= before && interval > 0 {
		p.Requests = int64(float64(after-before)/interval.Seconds() + 0.5)
	}
	p.Latency = s.After.Metrics["avg_latency"]
	return p
}
