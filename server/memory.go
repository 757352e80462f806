package server

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/base"
)

// All members have the same tree, so without a bound they reach the ends of their memory at the same time. A
// server that knows how much memory its process may use lets the tree take a part of it; the rest
// is for work in progress, clients, and the collector. It also looks at what the process really uses, as by
// watches and connections.
//
// Each server tells the leader how much its tree may take. The leader refuses writes with which its own
// tree, which equals the others, would take more than the least of that: see evaluate.Evaluator.SetRoom.
// Deletes are evaluated always, and so are new sessions, up to a reserve.

// memory is the memory of the process.
type memory struct {
	log     *zap.Logger
	now     func() time.Duration
	limit   int64                      // of the process, in bytes; 0 for none
	tree    int64                      // the part that the tree may take, in bytes of datatree.Tree.Memory
	measure func() (live, inUse int64) // of the process
	collect func()                     // the garbage

	live      atomic.Int64
	short     atomic.Bool // the process uses so much that nothing may grow
	shortFor  base.Since
	collected time.Duration // when garbage was collected here last
}

const (
	// What is left by the collector is short of memory from shortLive hundredths of the limit on, until it is
	// at most enoughLive. The collector needs the rest to do its work.
	shortLive, enoughLive = 75, 70
	// So is the memory of the process, when the collector can't hold it at its own limit, which is 90.
	shortInUse, enoughInUse = 95, 91
	// collectEvery is the time between two collections while memory is short: a server that refuses writes
	// allocates little, and would not notice that it has more again.
	collectEvery = 5 * time.Second
)

func newMemory(limit int64, log *zap.Logger, now func() time.Duration) *memory {
	return &memory{log: log, now: now, limit: limit, tree: treeShare(limit), measure: measureMemory, collect: runtime.GC}
}

// treeShare returns how much of the memory of a process the tree may take. 0 means any amount.
func treeShare(limit int64) int64 {
	if limit <= 0 {
		return 0
	}
	const program = 24 << 20 // without data and clients
	parts := limitsWithin(limit)
	work := parts.sum()
	clients := limit / watchShare
	return max((limit-program-work-clients)/100*65, limit/4, 1)
}

// watchShare is the part of a process's memory that watches may take.
const watchShare = 8

// watches is how much memory watches may take; 0 for any amount.
func (m *memory) watches() int64 { return m.limit / watchShare }

// A connection that an edge's carries has no descriptor. With what its session is asked for it takes up to carriedBytes for long.
const (
	carriedShare = 8 // the part of a process's memory that such connections may take
	carriedBytes = 16 << 10
)

// carried is how many connections others may carry, 0 for any number: what there is memory for, and no fewer than have descriptors.
func (m *memory) carried(direct int) int {
	if m.limit <= 0 {
		return 0
	}
	return max(int(m.limit/carriedShare/carriedBytes), direct)
}

// feedHistory is how much memory the latest changes may take, for feeds, of what is configured.
func (m *memory) feedHistory(configured int64) int {
	if m.limit > 0 {
		configured = min(configured, m.limit/32)
	}
	return int(configured)
}

// retained is how much memory may be kept for a snapshot that is being written; 0 for any amount.
func (m *memory) retained() int64 { return m.tree / 4 }

// measureMemory returns what the last collection has left, with the stacks, and what the process has from
// the system.
func measureMemory() (live, inUse int64) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	at := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	return at(0) + at(1), at(2) - at(3)
}

// update looks at the memory of the process.
func (m *memory) update() {
	live, inUse := m.measure()
	now := m.now()
	if m.short.Load() && now-m.collected >= collectEvery {
		m.collected = now
		m.collect()
		live, inUse = m.measure()
	}
	m.live.Store(live)
	if m.limit <= 0 {
		return
	}
	percent := m.limit / 100
	short := live >= percent*shortLive || inUse >= percent*shortInUse
	enough := live < percent*enoughLive && inUse < percent*enoughInUse
	if was := m.short.Load(); short == was || was && !enough {
		return
	}
	m.short.Store(short)
	m.shortFor.Set(short, now)
	fields := []zap.Field{zap.Int64("live_bytes", live), zap.Int64("in_use_bytes", inUse), zap.Int64("limit_bytes", m.limit)}
	if short {
		m.log.Error("memory is short: the ensemble refuses writes that need more, until there is more again", fields...)
		return
	}
	m.log.Info("there is enough memory again", fields...)
}

// holds reports whether there is memory for trees of these sizes at a time. The size of a snapshot may take
// the place of its tree's: it is nearly the same.
func (m *memory) holds(trees ...int64) bool {
	sum := int64(0)
	for _, n := range trees {
		sum += n
	}
	return m.tree == 0 || sum <= m.tree/2*3
}

// percent returns how full the memory is with a tree of tree bytes, which may take room: at 100 nothing may
// grow. It is 0 if there is no limit.
func (m *memory) percent(tree, room int64) int64 {
	if m.limit <= 0 {
		return 0
	}
	percent := m.live.Load() * 100 / max(m.limit/100*shortLive, 1)
	if m.short.Load() {
		percent = max(percent, 100)
	} else if room > 0 {
		percent = max(percent, tree*100/room)
	}
	return percent
}

// room returns how much memory the tree may take, in bytes of datatree.Tree.Memory; 0 for any amount.
func (m *memory) room() int64 {
	if m.short.Load() {
		return 1
	}
	return m.tree
}

// spare returns how much memory one may take who looks at the past; 0 if there is none to spare.
func (m *memory) spare() int64 {
	const unlimited = 1 << 30
	switch {
	case m.short.Load():
		return 0
	case m.tree == 0:
		return unlimited
	}
	return m.tree / 8
}
