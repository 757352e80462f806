package server

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
)

// readers are the clients that read from a mirror, as from a server in read-only mode. Their
// sessions exist on their connections only. Nothing of theirs can get into the mirror's log: the
// server that has their connections is not started, so it has neither a log nor a peer loop, and
// its Backend takes no requests.
type readers struct {
	*Server
	answers *clients.Answers
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
	if err := s.identities.open(&cfg.Identities.JWT, s.log); err != nil {
		return err
	}
	s.clock.begin()
	s.ids = session.NewIDs(uint8(m.ID()), s.clock.start.UnixMilli(), m.ident.IDs)
	s.ids.Reserved(math.MaxUint64) // nothing that lasts has one of them
	s.keys.Store(session.NewKeys(newIdent().Secret))
	s.state.Tree = m.state.Tree
	s.state.SetApplied(m.Last())
	m.state = &s.state
	m.readers = &readers{Server: s}
	if err := s.openAudit(&cfg.Audit); err != nil {
		return err
	}
	if err := s.readClientTLS(); err != nil {
		return err
	}
	s.clients = s.newClients(readersBackend{backend{s.lifecycle, s.published, nil, s.readersFacts}})
	m.readers.answers = s.clients.NewAnswers(func() {})
	if m.Last() != 0 {
		s.clients.BeginReadOnly()
	}
	s.loops.Go(m.readers.tick)
	return errors.Join(s.auditStart(nil), s.open())
}

func (r *readers) tick() {
	tick := time.NewTicker(r.cfg.TickTime / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.clients.Tick(r.now())
		case <-r.stopping:
			return
		}
	}
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
	r.clients.EndService()
	r.state.SetApplied(zxid)
	r.clients.BeginReadOnly()
}

func (r *readers) close() error {
	r.ending.Store(true)
	r.identities.close()
	r.auditStop()
	if r.clients != nil {
		r.clients.Refuse()
		r.clients.Close(r.live.Load().RequestThrottle.ShutdownTimeout)
		r.stopLoops()
		r.unregister()
	}
	return r.closeStorage()
}

// readersBackend takes no requests.
type readersBackend struct{ backend }

// Submit panics if there is a request: a connection of a read-only client has none.
func (readersBackend) Submit(subs ...replica.Submission) {
	if len(subs) > 0 {
		panic(fmt.Sprintf("server: a reader of a mirror has asked for %v", subs[0].Request.Op))
	}
}

// readersFacts are the facts of a server that has clients only.
type readersFacts struct{ facts }

func (s *Server) readersFacts(origin uint64) fourletter.Source {
	return readersFacts{facts{s, s.clients.Facts(origin)}}
}

func (f readersFacts) Server() fourletter.Server {
	r := monitor.Reading{Metrics: f.s.metrics}
	f.s.clients.Show(&r)
	f.s.state.RLock()
	nodes := f.s.state.Tree.Stats().Nodes
	f.s.state.RUnlock()
	return fourletter.Server{
		Mode:         "read-only",
		MinLatencyMs: r.MinLatency(),
		AvgLatencyMs: r.AvgLatency(),
		MaxLatencyMs: r.MaxLatency(),
		Received:     r.PacketsReceived.Load(),
		Sent:         r.PacketsSent.Load(),
		Connections:  r.Connections,
		Zxid:         int64(f.s.state.Applied()),
		Nodes:        int64(nodes),
	}
}

func (f readersFacts) Metrics() []fourletter.Metric { return nil }

func (f readersFacts) Sessions() fourletter.Sessions {
	return fourletter.Sessions{Learner: true, Timeouts: f.learnerSessions()}
}
