package clients

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/limits/shares"
	"github.com/zkd-project/zkd/server/state"
)

// rules are the rules that limit clients (zkd.limit, and quotas). Each connection has a limiter for them.
type rules struct {
	table    atomic.Pointer[limits.Table] // nil without rules
	weights  atomic.Pointer[limits.Weights]
	live     *atomic.Pointer[config.Config]
	state    *state.State
	sessions *sessions
	now      func() time.Duration
	log      *zap.Logger
	quotas   quotaRates
}

// set takes over the weights, and makes a new table if the rules are others than before, which is nil at
// the start. Rates and counts begin again. A connection that is there counts in the new table from its next request on,
// which is a ping at the latest.
func (r *rules) set(before, cfg *config.Config) {
	if before == nil || !slices.Equal(before.Limits, cfg.Limits) {
		r.weights.Store(limits.NewWeights(cfg.Limits))
	}
	switch {
	case before != nil && before.LimitsInQuota == cfg.LimitsInQuota && slices.Equal(before.Limits, cfg.Limits):
	case len(cfg.Limits) == 0 && !cfg.LimitsInQuota:
		r.table.Store(nil)
	default:
		r.table.Store(limits.New(cfg.Limits, r.state.HasNode))
	}
}

// code returns the code with which a request is refused, given the one that says why.
// Clients older than that one can lose their connection's thread over it (kazoo).
func (r *rules) code(exact jute.Code) jute.Code {
	switch {
	case r.live.Load().LimitCodes == "exact":
		return exact
	case exact == jute.ErrThrottledOp:
		return jute.ErrOperationTimeout
	}
	return jute.ErrNoAuth
}

// quotaRates are the limits in /zookeeper/quota as they were last read. The housekeeper
// owns them.
type quotaRates struct {
	table    *limits.Table
	tree     *datatree.Tree
	version  uint64
	subtrees int // that have limits
}

// tick follows changes of the limits, and reports the bursts above them.
func (r *rules) tick(now time.Duration) {
	t := r.table.Load()
	if t == nil {
		return
	}
	r.followQuotas(t)
	t.Tick(now, r.sessions.exists)
	for _, b := range t.Bursts() {
		r.log.Warn("a limit is exceeded", zap.String("rule", b.Rule), zap.Stringer("resource", b.Resource),
			zap.String("subject", b.Subject), zap.Int64("limit", b.Limit), zap.Bool("hard", b.Hard))
	}
}

// Weights returns the weights by which subjects have turns.
func (s *Clients) Weights() *limits.Weights { return s.rules.weights.Load() }

// LimitUses returns what the clients have used of limits since the last call: see limits.Table.Uses.
func (s *Clients) LimitUses() []shares.Use {
	if t := s.rules.table.Load(); t != nil {
		return t.Uses(s.now())
	}
	return nil
}

// SetShares replaces the shares that this server has of limits.
func (s *Clients) SetShares(list []shares.Share) {
	if t := s.rules.table.Load(); t != nil {
		t.SetShares(s.now(), list)
	}
}

// followQuotas reads the limits in /zookeeper/quota if they have changed.
func (r *rules) followQuotas(t *limits.Table) {
	if !r.live.Load().LimitsInQuota {
		return
	}
	texts := make(map[string]string)
	r.state.RLock()
	tree := r.state.Tree
	last := &r.quotas
	version := tree.RatesVersion()
	changed := t != last.table || tree != last.tree || version != last.version
	if changed {
		for path, data := range tree.Rates() {
			texts[path] = string(data)
		}
	}
	r.state.RUnlock()
	if !changed {
		return
	}
	var list []limits.Rule
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		rule, err := limits.ParseRates(path, texts[path])
		if err != nil {
			r.log.Warn("can't read the limits in /zookeeper/quota", zap.String("path", path), zap.Error(err))
			continue
		}
		list = append(list, rule)
	}
	t.Follow(list)
	if len(list)+last.subtrees > 0 {
		r.log.Info("limits in /zookeeper/quota have changed", zap.Int("subtrees", len(list)))
	}
	*last = quotaRates{t, tree, version, len(list)}
}
