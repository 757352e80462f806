package clients

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/state"
)

// shared is what the connections of a server share. New sets the fields. Each part has its own lock.
type shared struct {
	cfg     *config.Config
	live    atomic.Pointer[config.Config] // cfg with the values that live keys have by now
	log     *zap.Logger
	metrics *monitor.Metrics
	backend Backend
	state   *state.State
	schemes *auth.Schemes

	lines    *line.Lines
	register *register.Register[*line.Line] // of the connections
	most     register.Most
	sessions sessions
	readOnly atomic.Bool // serving read-only clients because there is no leader

	proofs      *Proofs
	rules       rules
	newSessions tokenBucket
	throttler   *throttler
	large       largeRequests
	mostWatches int64 // Limits.Watches
	drain       Drain
	tls         tlsDoor

	writers  writers
	flushers *flushers
	feeder   *feeder
	parking  parking

	words      atomic.Pointer[fourletter.Whitelist]
	configurer configurer
	looks      looks
	audit      atomic.Pointer[auditor] // nil while there has been no audit log
	tallies    tallies
	ended      endedUses
	complaints complaints
	refusals   refusals

	stopping chan struct{}  // closed when the server stops
	running  sync.WaitGroup // readers, flushers and the feeder, and connections that are parked
}

func (s *shared) now() time.Duration { return s.backend.Now() }

// millis converts a time of the server's clock for the session tracker.
func millis(d time.Duration) int64 { return d.Milliseconds() }
