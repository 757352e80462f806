package mirror

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/identities"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/settings"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/server/words"
	"github.com/zkd-project/zkd/server/zab"
)

// Options configure the readers of a mirror.
type Options struct {
	Config *config.Config // of their ports, identities and limits
	// Logger may be nil for none.
	Logger *zap.Logger
	// Version is the text that srvr and envi show after "Zookeeper version: ".
	Version string
	// Standby says how the copy follows an ensemble of zkd; nil for another one's.
	Standby func() show.Standby
	// Listen opens the ports; nil means TCP.
	Listen func(network, address string) (net.Listener, error)
}

// What readers hold in memory, in bytes.
const (
	maxRequests = 128 << 20
	maxReplies  = 256 << 20
)

// readers are the clients that read from a mirror, as from a server in read-only mode. Their
// sessions exist on their connections only. Nothing of theirs can get into the mirror's log: they
// have the tree alone, and their Backend takes no requests.
type readers struct {
	cfg        *config.Config
	version    string
	standby    func() show.Standby
	waits      func() error // Mirror.Waits
	log        *zap.Logger
	metrics    *monitor.Metrics
	clock      base.Clock
	life       *base.Life
	identities *identities.Identities
	audit      *audit.Trail
	state      *state.State
	settings   *settings.Settings
	changes    *feed.History // for feeds; nil for none
	words      *words.Words
	clients    *clients.Clients // nil before start
	answers    *clients.Answers
}

// ServeReaders opens the ports that o configures to read-only clients, and serves them as long as
// the copy is exact. It must be called before anything changes the mirror.
func (m *Mirror) ServeReaders(o Options) error {
	r, err := newReaders(o, m.state.Tree, m.Last())
	if err != nil {
		return err
	}
	r.state.Ensemble, r.waits = m.ensemble, m.Waits
	if err := r.start(o, uint8(m.ID())); err != nil {
		return errors.Join(err, r.close())
	}
	m.state, m.readers = r.state, r
	m.entries.Applied = func(txn *datatree.Txn, out *datatree.Applied) {
		r.changes.Add(txn, out, r.state.Tree.LastZxid())
		r.changed(txn.Zxid, out.Events)
	}
	return nil
}

func newReaders(o Options, tree *datatree.Tree, applied jute.Zxid) (*readers, error) {
	cfg := *o.Config
	cfg.ReadOnlyMode = false // which begins by itself; a mirror begins when it has a copy
	if o.Standby == nil {
		cfg.FeedHistory = 0 // of Apache's transactions nobody notes what they did
	}
	cfg.FourLetterWhitelist = append(slices.Clone(cfg.FourLetterWhitelist), "isro")
	log := o.Logger
	if log == nil {
		log = zap.NewNop()
	}
	ids, err := identities.New(&cfg, log)
	if err != nil {
		return nil, fmt.Errorf("readers: %w", err)
	}
	r := &readers{cfg: &cfg, version: o.Version, standby: o.Standby, log: log, metrics: monitor.NewMetrics(), identities: ids, state: &state.State{Tree: tree, Watches: watch.New()},
		settings: settings.New(settings.Options{Config: &cfg}), changes: feed.New(int(cfg.FeedHistory), applied)}
	r.life = base.NewLife(func(err error) {
		log.Error("stopping: readers can't be served", zap.Error(err))
	})
	r.audit = audit.NewTrail(vfs.OS{}, log, prometheus.NewRegistry(), r.life.Fail)
	if cfg.Admin.API {
		r.audit.KeepTail()
	}
	r.state.SetApplied(applied)
	return r, nil
}

// start opens the ports, and serves clients if there is a copy already.
func (r *readers) start(o Options, id uint8) error {
	if err := r.identities.Open(); err != nil {
		return err
	}
	r.clock.Begin()
	if err := r.audit.Open(&r.cfg.Audit); err != nil {
		return err
	}
	tls, err := clients.ReadTLS(&r.cfg.ClientTLS, r.log)
	if err != nil {
		return err
	}
	ids := session.NewIDs(id, r.clock.Start().UnixMilli(), 0)
	ids.Reserved(math.MaxUint64) // nothing that lasts has one of them
	r.state.Begin(data.NewIdentity().Secret)
	tracker := session.NewTracker(r.cfg.TickTime.Milliseconds())
	r.words = r.newWords(tracker)
	changes := r.changes
	if r.cfg.FeedHistory == 0 {
		changes = nil
	}
	most := 0
	if o.Listen == nil {
		_, limit := base.FileDescriptors()
		most = base.DivideDescriptors(limit, len(r.cfg.Members.Servers)).Clients
	}
	r.clients = clients.New(clients.Options{
		MaxDescriptors: most,
		MaxCarried:     most,
		Config:         r.cfg,
		Logger:         r.log,
		Metrics:        r.metrics,
		Limits:         clients.Limits{Requests: maxRequests, Replies: maxReplies},
		Backend:        readersBackend{r},
		State:          r.state,
		Schemes:        r.identities.Schemes,
		IDs:            ids,
		Sessions:       tracker,
		Audit:          r.audit.Log(),
		Changes:        changes,
		TLS:            tls,
		Configure:      r.settings.Configure,
		Listen:         o.Listen,
	})
	r.words.Clients(r.clients)
	r.answers = r.clients.NewAnswers(func() {}, func(int) {}, func(*datatree.Event, int) {})
	if r.state.Applied() != 0 {
		r.clients.BeginReadOnly()
	}
	r.life.Go(r.tick)
	return errors.Join(r.audit.Start(nil), r.listen())
}

// newWords returns what is shown of the readers: there are no members, and no log.
func (r *readers) newWords(tracker *session.Tracker) *words.Words {
	never := func() bool { return false }
	return words.New(words.Options{
		Config:   r.cfg,
		Live:     func() *config.Config { return r.cfg },
		Metrics:  r.metrics,
		Clock:    &r.clock,
		FS:       vfs.OS{},
		State:    r.state,
		Tracker:  tracker,
		Read:     r.read,
		Serving:  never,
		Leads:    never,
		Founders: func() []byte { return nil },
		Joiners:  func(*show.View) []show.Joiner { return nil },
	})
}

func (r *readers) listen() error {
	err := r.clients.Ports().Listen(r.cfg.ClientPortAddress, r.cfg.ClientPort)
	if t := &r.cfg.ClientTLS; err == nil && t.Port >= 0 {
		err = r.clients.Ports().ListenSecure(t.Address, t.Port)
	}
	return err
}

func (r *readers) tick() {
	tick := time.NewTicker(r.cfg.TickTime / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.clients.Tick(r.clock.Now())
		case <-r.life.Stopping():
			return
		}
	}
}

func (r *readers) close() error {
	r.life.End()
	r.identities.Close()
	r.audit.Stop()
	if r.clients != nil {
		r.clients.Refuse()
		r.clients.Close(r.cfg.RequestThrottle.ShutdownTimeout)
		r.life.Stop()
		r.life.Wait()
	}
	return r.audit.Close()
}

// read looks at the readers.
func (r *readers) read() *show.View {
	v := &show.View{
		Metrics:  r.metrics,
		Version:  r.version,
		Copy:     true,
		ReadOnly: r.clients.ReadOnly(),
		Zxid:     int64(r.state.Applied()),
		Latency:  r.metrics.Requests.Latency(),
		Ensemble: r.cfg.Replicated(),
		Role:     &zab.Status{},
	}
	v.Held = func() []show.Holding { return nil }
	v.Quotas = r.quotas
	if r.standby != nil {
		v.Standby = r.standby()
	}
	v.Troubles = func() show.Troubles {
		return show.Troubles{Clock: r.clock.Wall(), LogLacks: r.waits(), Standby: v.Standby}
	}
	r.clients.Show(v)
	r.state.RLock()
	v.Tree, v.Sessions = r.state.Tree.Stats(), r.state.Tree.NumSessions()
	r.state.RUnlock()
	return v
}

func (r *readers) quotas() []show.NamespaceQuotas {
	r.state.RLock()
	list := slices.Collect(r.state.Tree.Quotas())
	r.state.RUnlock()
	return show.ByNamespace(list)
}

// View looks at a mirror that has readers.
func (m *Mirror) View() *show.View { return m.readers.read() }

// changed publishes a transaction that was applied, with its events. The state is locked.
func (r *readers) changed(zxid jute.Zxid, events []datatree.Event) {
	r.state.SetApplied(zxid)
	r.answers.Begin(r.clock.Now())
	for i := range events {
		r.answers.Notify(&events[i], zxid)
	}
}

// installed is called when another tree has replaced the one before. The state is locked. The
// clients connect again, and learn what has changed when they set their watches.
func (r *readers) installed(zxid jute.Zxid) {
	r.clients.StopServing()
	r.clients.Lines().EndEarlier(0)
	r.state.DeriveKeys()
	r.state.SetApplied(zxid)
	r.changes.Reset(zxid)
	r.clients.BeginReadOnly()
}

// readersBackend is what a connection has of the server: no service, and no way to order a request.
type readersBackend struct{ *readers }

func (b readersBackend) Now() time.Duration              { return b.clock.Now() }
func (readersBackend) AnswersUntil() int64               { return 0 }
func (readersBackend) Service() uint64                   { return 0 }
func (readersBackend) Serving() bool                     { return false }
func (b readersBackend) Ending() bool                    { return b.life.Ending() }
func (readersBackend) IdleSince() time.Duration          { return 0 }
func (b readersBackend) Shows(origin uint64) show.Source { return b.words.Source(origin) }

// Submit fails if there is a request: a connection of a read-only client has none.
func (b readersBackend) Submit(subs ...replica.Submission) {
	if len(subs) > 0 {
		b.life.Fail(fmt.Errorf("a reader has asked for %v, which changes the copy", subs[0].Request.Op))
	}
}
