package server

import (
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// housekeeper does the periodic work of a server.
type housekeeper struct {
	cfg       *config.Config
	log       *zap.Logger
	now       func() time.Duration
	jump      func() base.Jump // of the wall clock
	stopping  <-chan struct{}
	id        zab.SID
	standing  *standing
	serving   func() bool
	openRoot  func() bool
	state     *state.State
	ids       *session.IDs
	tracker   *session.Tracker
	disk      *disk
	memory    *memory
	snapshots *snapshotter
	clients   *clients.Clients
	transport *transport.Transport // nil without an ensemble
	events    *base.Queue[peerEvent]
	missing   missingVoters
	shares    bool // limits, with other servers
}

// run does the periodic work of each tick: it expires sessions, and checks the disk
// and the quotas.
func (h *housekeeper) run() {
	tick := time.NewTicker(h.cfg.TickTime / 2)
	defer tick.Stop()
	share, stop := sharingTicker(h.shares)
	defer stop()
	last := h.now()
	var exceeded exceededQuotas
	jumps := 0
	looked := false
	for {
		select {
		case <-tick.C:
			now := h.now()
			h.postponeExpiry(now - last)
			last = now
			jumps = h.watchClock(jumps)
			h.watchDisk()
			h.memory.update()
			h.watchVoters(now)
			if !looked && h.serving() {
				looked = true
				h.warnOfOpenRoot()
			}
			if h.ids.Short() {
				h.events.Put(peerEvent{kind: evReserveIDs})
			}
			exceeded = h.watchQuotas(exceeded)
			h.events.Put(peerEvent{kind: evExpire, at: now})
			h.clients.Tick(now)
			if h.transport != nil {
				h.transport.Tick()
			}
		case <-share:
			h.events.Put(peerEvent{kind: evUses, uses: h.clients.LimitUses()})
		case <-h.stopping:
			return
		}
	}
}

// watchClock logs that the wall clock was set, since as many jumps as before were logged. It returns how many there
// are now.
func (h *housekeeper) watchClock(before int) int {
	jump := h.jump()
	if jump.Count > before {
		h.log.Warn("the clock of this machine was set: times of nodes, TTLs, tokens and certificates depend on it, sessions and elections do not",
			zap.Duration("by", jump.By))
	}
	return jump.Count
}

// warnOfOpenRoot warns if everybody may change the tree through a port without TLS.
func (h *housekeeper) warnOfOpenRoot() {
	if h.openRoot() {
		h.log.Warn("everybody who reaches the client port may change the tree: see ACLs in docs/security.md", zap.Stringer("address", h.clients.Ports().Addr()))
	}
}

// postponeExpiry extends sessions by the time in which this process could not hear from
// anybody because it was stopped or starved: they expire late, never early (zab.md
// section E, rule 4).
func (h *housekeeper) postponeExpiry(sinceLast time.Duration) {
	if ms := session.Pause(millis(sinceLast), millis(h.cfg.TickTime/2)); ms > 0 {
		pause := time.Duration(ms) * time.Millisecond
		h.log.Warn("process was paused: sessions get the time back", zap.Duration("pause", pause))
		h.tracker.Postpone(ms)
		h.clients.Postpone(pause)
	}
}

// watchVoters looks for voters that are missing.
func (h *housekeeper) watchVoters(now time.Duration) {
	var ids []zab.SID
	if peers, lists := h.standing.peers.Load(), h.standing.lists.Load(); h.cfg.Replicated() && h.standing.leads() && peers != nil && lists != nil {
		for _, m := range lists.settled.List {
			if !lists.settled.Voter(m.ID) || m.ID == h.id {
				continue
			}
			if !slices.ContainsFunc(*peers, func(p zab.PeerStatus) bool { return p.ID == m.ID && p.Synced && p.Counted }) {
				ids = append(ids, m.ID)
			}
		}
	}
	h.missing.Set(len(ids) > 0, now)
	h.missing.mu.Lock()
	h.missing.mu.ids = ids
	h.missing.mu.Unlock()
}

// watchDisk looks how full the disk is, and makes room on a full one.
func (h *housekeeper) watchDisk() {
	if h.disk.update(h.snapshots.keepRoom()) {
		h.snapshots.purgeForSpace()
	}
	if h.disk.Full() {
		h.snapshots.makeRoom()
	}
}

// exceededQuotas are the paths whose quota was exceeded at the last check.
type exceededQuotas map[string]bool

// watchQuotas logs the quotas that are exceeded since the last check, and those that no
// longer are. A soft limit has no other effect (semantics.md section 12). The leader does
// it for all servers; other servers forget.
func (h *housekeeper) watchQuotas(last exceededQuotas) exceededQuotas {
	if !h.standing.leads() {
		return nil
	}
	h.state.RLock()
	list := slices.Collect(h.state.Tree.Exceeded())
	h.state.RUnlock()
	now := make(exceededQuotas, len(list))
	for i := range list {
		q := &list[i]
		now[q.Path] = true
		if !last[q.Path] {
			h.log.Warn("a quota is exceeded", quotaFields(q)...)
		}
	}
	for path := range last {
		if !now[path] {
			h.log.Info("a quota is not exceeded any more", zap.String("path", path))
		}
	}
	return now
}

// quotaFields returns the usage and the limits that are set.
func quotaFields(q *datatree.Quota) []zap.Field {
	fields := []zap.Field{zap.String("path", q.Path), zap.Int64("nodes", q.Usage.Count), zap.Int64("bytes", q.Usage.Bytes)}
	for _, limit := range []struct {
		name  string
		value int64
	}{
		{"soft_nodes", q.Limits.Count}, {"soft_bytes", q.Limits.Bytes},
		{"hard_nodes", q.Limits.CountHard}, {"hard_bytes", q.Limits.BytesHard},
	} {
		if limit.value >= 0 {
			fields = append(fields, zap.Int64(limit.name, limit.value))
		}
	}
	return fields
}

// missingVoters are the voters whose acknowledgements a leader does not count. The
// housekeeper looks for them.
type missingVoters struct {
	base.Since
	mu struct {
		sync.Mutex
		ids []zab.SID
	}
}

func (m *missingVoters) get() []zab.SID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.ids
}
