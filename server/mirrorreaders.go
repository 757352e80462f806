package server

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/state"
)

// readers are the clients that read from a mirror, as from a server in read-only mode. Their
// sessions exist on their connections only. Nothing of theirs can get into the mirror's log: the
// server that has their connections is not started, so it has neither a log nor a peer loop, and
// its Backend takes no requests.
type readers struct {
	clients *clients.Clients
	answers *clients.Answers
	state   *state.State
	now     func() time.Duration
	failed  <-chan error
	close   func() error
}

// ServeReaders opens the ports that o configures to read-only clients, and serves them as long as
// the copy is exact. It must be called before anything changes the mirror.
func (m *Mirror) ServeReaders(o Options) error {
	cfg := *o.Config
	cfg.ReadOnlyMode = false // which begins by itself; a mirror begins when it has a copy
	cfg.FourLetterWhitelist = append(slices.Clone(cfg.FourLetterWhitelist), "isro")
	o.Config, o.Load = &cfg, nil
	s, err := New(o)
	if err != nil {
		return err
	}
	s.state.Tree = m.state.Tree
	s.state.SetApplied(m.Last())
	if err := s.startForReaders(uint8(m.ID()), m.Last() != 0); err != nil {
		return errors.Join(err, s.closeForReaders())
	}
	m.state = &s.state
	m.readers = &readers{s.clients, s.clients.NewAnswers(func() {}, func(*datatree.Event, int) {}), &s.state, s.now, s.life.Failed(), s.closeForReaders}
	return nil
}

// startForReaders starts what read-only clients need of a server, and serves them if there is a copy
// already.
func (s *Server) startForReaders(id uint8, copied bool) error {
	if err := s.identities.Open(); err != nil {
		return err
	}
	s.clock.Begin()
	s.ids = session.NewIDs(id, s.clock.Start().UnixMilli(), 0)
	s.ids.Reserved(math.MaxUint64) // nothing that lasts has one of them
	s.keys.Store(session.NewKeys(data.NewIdentity().Secret))
	if err := s.audit.Open(&s.cfg.Audit); err != nil {
		return err
	}
	if err := s.readClientTLS(); err != nil {
		return err
	}
	s.words.read = s.readForReaders
	s.clients = s.newClients(readersBackend{backend{&s.service, s.now, s.life.Ending, nil, s.words.source}})
	s.words.clients = s.clients
	if copied {
		s.clients.BeginReadOnly()
	}
	s.life.Go(s.tickForReaders)
	return errors.Join(s.audit.Start(nil), s.open())
}

func (s *Server) tickForReaders() {
	tick := time.NewTicker(s.cfg.TickTime / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.clients.Tick(s.now())
		case <-s.life.Stopping():
			return
		}
	}
}

func (s *Server) closeForReaders() error {
	s.life.End()
	s.identities.Close()
	s.audit.Stop()
	if s.clients != nil {
		s.clients.Refuse()
		s.clients.Close(s.live.Load().RequestThrottle.ShutdownTimeout)
		s.stopLoops()
		s.unregister()
	}
	return s.closeStorage()
}

// readForReaders is read for a server that has clients only.
func (s *Server) readForReaders() *show.View {
	v := &show.View{
		Metrics:  s.metrics,
		Version:  s.opts.Version,
		Copy:     true,
		ReadOnly: s.clients.ReadOnly(),
		Zxid:     int64(s.state.Applied()),
		Latency:  s.metrics.Requests.Latency(),
		Drain:    s.clients.DrainRemark(),
		Ensemble: s.ensemble(),
		Role:     s.standing.role.Load(),
	}
	s.clients.Show(v)
	s.state.RLock()
	v.Tree = s.state.Tree.Stats()
	s.state.RUnlock()
	return v
}

// changed publishes a transaction that was applied, with its events. The state is locked.
func (r *readers) changed(zxid jute.Zxid, events []datatree.Event) {
	r.state.SetApplied(zxid)
	r.answers.Begin(r.now())
	for i := range events {
		r.answers.Notify(&events[i], zxid)
	}
}

// installed is called when another tree has replaced the one before. The state is locked. The
// clients connect again, and learn what has changed when they set their watches.
func (r *readers) installed(zxid jute.Zxid) {
	r.clients.StopServing()
	r.clients.EndEarlier(0)
	r.state.SetApplied(zxid)
	r.clients.BeginReadOnly()
}

// readersBackend takes no requests.
type readersBackend struct{ backend }

// Submit panics if there is a request: a connection of a read-only client has none.
func (readersBackend) Submit(subs ...replica.Submission) {
	if len(subs) > 0 {
		panic(fmt.Sprintf("server: a reader of a mirror has asked for %v", subs[0].Request.Op))
	}
}
