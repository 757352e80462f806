package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/zab"
)

// lifecycle is what every part of a server needs: its configuration, clock, logger and
// counters, and its start and end. It knows no part.
type lifecycle struct {
	cfg *config.Config // as it was at the start
	// live is cfg with the values that live keys have by now.
	live    atomic.Pointer[config.Config]
	log     *zap.Logger
	metrics *monitor.Metrics
	clock   clock

	ctx      context.Context // of the server's own goroutines
	stop     context.CancelFunc
	stopping <-chan struct{} // the end of ctx
	loops    sync.WaitGroup  // the goroutines that live as long as the server

	serving  atomic.Bool // a leader is known, or this server is the leader
	ending   atomic.Bool // closing, or failed: no new sessions
	failed   chan error  // has the error that stops the process
	failOnce sync.Once
}

func newLifecycle(cfg *config.Config, log *zap.Logger, metrics *monitor.Metrics) *lifecycle {
	l := &lifecycle{cfg: cfg, log: log, metrics: metrics, failed: make(chan error, 1)}
	l.live.Store(cfg)
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.stopping = l.ctx.Done()
	return l
}

// now is the server's clock, for leases, sessions and the core. It does not go backwards,
// and does not stand still while the machine is suspended.
func (l *lifecycle) now() time.Duration { return l.clock.now() }

// millis converts a time of the server's clock for the core and the session tracker.
func millis(d time.Duration) int64 { return d.Milliseconds() }

// ensemble reports whether there are other servers.
func (l *lifecycle) ensemble() bool { return l.cfg.Replicated() }

// fail ends the server because it can no longer keep its promises. Only the first error
// counts.
func (l *lifecycle) fail(err error) {
	l.failOnce.Do(func() {
		l.metrics.Unrecoverable.Add(1)
		l.ending.Store(true)
		l.serving.Store(false)
		l.log.Error("stopping: the server can't keep its promises", zap.Error(err))
		l.failed <- err
	})
}

// published is this server's part in the ensemble, as published by the peer loop and, for
// the last two fields, by the applier.
type published struct {
	role           atomic.Pointer[zab.Status]
	intro          atomic.Pointer[zab.Introduction] // what hellos say
	lists          atomic.Pointer[memberLists]
	membersChanged chan struct{}                    // has a token when lists has changed
	unfollowed     atomic.Pointer[string]           // why the last change of the members can't be followed; nil or "" if it is
	peers          atomic.Pointer[[]zab.PeerStatus] // of a leader, updated from time to time
	requests       [zab.Zero + 1]atomic.Uint64      // by server: what it has forwarded to this one
	heldMetrics    held
	answersUntil   atomic.Int64  // as zab.Core.AnswersUntil, on the clock of now
	quorumFull     atomic.Bool   // of a leader: the disks of so many voters are full that the others are no quorum
	service        atomic.Uint64 // number of the present service; 0 if there is none
	servingFrom    atomic.Int64  // time.Duration
	idleSince      atomic.Int64  // when service last ended; time.Duration

	cluster atomic.Pointer[zab.ID]       // nil while the history does not say
	keys    atomic.Pointer[session.Keys] // of session passwords
}

// leads reports whether this server is a leader in service.
func (st *published) leads() bool { return st.role.Load().Role == zab.Leading }

// memberLists are the lists of members that decide: see zab.Core.Lists. They are
// immutable.
type memberLists struct {
	settled, newest *zab.Members
	// served means that this server has served clients as a member, since its start. A server
	// that the settled list lacks was removed if so; otherwise nobody has added it yet.
	served bool
}
