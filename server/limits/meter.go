package limits

import (
	"maps"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/limits/shares"
)

// burst is how much time's worth of its rate a bucket holds.
const burst = time.Second

// meter counts one resource of one subject of a rule.
type meter struct {
	rule     string
	resource Resource
	subject  string // an identity, an address or a path
	limit    Limit
	key      shares.Key // of a rate
	stats    *stats

	clients map[*Client]struct{} // that hold the meter; guarded by Table.mu

	mu struct {
		sync.Mutex
		// used is at least what is used, of a count, unless stale is set.
		used  int64
		stale bool
		added int64 // since the start: what was added to used
		exact int64 // used when it was last counted
		// soft and hard are the buckets of a rate. rate is the hard limit that is in force, or the soft one if there is no hard one,
		// in thousandths per second: the share of this server. used is what was used since the last report.
		soft, hard bucket
		rate       int64
		short      time.Duration // until when it counts that a request had to wait
		// over means that the soft limit has been exceeded, and that this was reported.
		over bool
		// sessions are those that a meter of sessions counts, each with the time until
		// which it counts although it does not exist: it may be on its way.
		sessions map[jute.SessionID]time.Duration
	}
}

// bucket is a token bucket as a time: it is full when that time has come, and each token
// taken moves the time on. It is empty when that time is burst ahead; further ahead it is
// in debt.
type bucket time.Duration

// cost is the time in which n tokens come, rounded up.
func cost(n, perSecond int64) time.Duration {
	hi, lo := bits.Mul64(uint64(n), uint64(time.Second))
	lo, carry := bits.Add64(lo, uint64(perSecond-1), 0)
	hi += carry
	if hi >= uint64(perSecond) {
		return longest
	}
	q, _ := bits.Div64(hi, lo, uint64(perSecond))
	return min(longest, time.Duration(min(q, uint64(longest))))
}

// longest bounds a debt, so that times can't overflow.
const longest = 1000 * time.Hour

// wait returns how long it is until the bucket is no longer in debt.
func (b bucket) wait(now time.Duration) time.Duration {
	return max(0, time.Duration(b)-now-burst)
}

// full reports whether the bucket has all tokens that it can hold.
func (b bucket) full(now time.Duration) bool { return time.Duration(b) <= now }

// take takes tokens. The debt is at most limit.
func (b *bucket) take(now time.Duration, cost, limit time.Duration) {
	*b = bucket(min(max(time.Duration(*b), now)+cost, now+burst+limit))
}

// wait returns how long the next request has to wait.
func (m *meter) wait(now time.Duration) time.Duration {
	if m.limit.Hard == 0 {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.mu.hard.wait(now)
	if d > 0 {
		m.mu.short = now + shortFor
	}
	return d
}

// take charges n to a rate. It returns how long to wait before it is used, and whether a
// burst above the soft limit begins, or above the hard one if there is no soft one.
func (m *meter) take(now time.Duration, n int64) (wait time.Duration, exceeds bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limit.Hard > 0 {
		wait = m.mu.hard.wait(now)
		if m.mu.hard.full(now) && m.limit.Soft == 0 {
			m.mu.over = false
		}
		m.mu.hard.take(now, cost(shares.Scale*n, m.mu.rate), longest)
	}
	m.mu.used += n
	above := wait > 0
	if m.limit.Soft > 0 {
		if m.mu.soft.full(now) {
			m.mu.over = false
		}
		m.mu.soft.take(now, cost(shares.Scale*n, m.softRate()), burst)
		if above = m.mu.soft.wait(now) > 0; above {
			m.stats.over.Add(1)
		}
	}
	exceeds = above && !m.mu.over
	m.mu.over = m.mu.over || above
	return wait, exceeds
}

// add counts n more. If that is more than the hard limit, it counts nothing and returns
// false. count counts what is used; it is called without locks, and is nil if used is
// exact.
func (m *meter) add(n int64, count func() int64) (ok, exceeds bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if count != nil && m.mustCountLocked(n) {
		m.mu.stale = false
		before := m.mu.added
		m.mu.Unlock()
		used := count()
		m.mu.Lock()
		m.mu.exact = used
		m.mu.used = used + m.mu.added - before // others may have added meanwhile
		m.calmLocked()
	}
	if m.limit.Hard > 0 && m.mu.used+n > m.limit.Hard {
		return false, m.refuseLocked()
	}
	m.mu.used += n
	m.mu.added += n
	return true, m.noteLocked()
}

// mustCountLocked reports whether used has to be exact before n are added. Above the soft
// limit it is counted again only after some have been added: each count takes time.
func (m *meter) mustCountLocked(n int64) bool {
	sum := m.mu.used + n
	switch {
	case m.mu.stale, m.limit.Hard > 0 && sum > m.limit.Hard:
		return true
	case m.limit.Soft == 0 || sum <= m.limit.Soft:
		return false
	}
	return !m.mu.over || sum > m.mu.exact+max(16, m.mu.exact/8)
}

// refuseLocked reports whether a refusal begins a burst.
func (m *meter) refuseLocked() (exceeds bool) {
	exceeds = !m.mu.over
	m.mu.over = true
	return exceeds
}

// noteLocked counts what is above the soft limit, and reports whether it was not before.
func (m *meter) noteLocked() (exceeds bool) {
	if m.limit.Soft == 0 || m.mu.used <= m.limit.Soft {
		m.calmLocked()
		return false
	}
	m.stats.over.Add(1)
	exceeds = !m.mu.over
	m.mu.over = true
	return exceeds
}

// remove counts n less.
func (m *meter) remove(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.used = max(0, m.mu.used-n)
	m.calmLocked()
}

// calmLocked ends a burst when less is used again.
func (m *meter) calmLocked() {
	if m.mu.used <= m.limit.Soft || m.limit.Soft == 0 && m.mu.used < m.limit.Hard {
		m.mu.over = false
	}
}

// outdated makes the next add count what is used.
func (m *meter) outdated() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.stale = true
}

// arrival is how long a session may take from its request until it exists.
const arrival = 10 * time.Second

// addSession counts a session. A resumed one is never refused.
func (m *meter) addSession(now time.Duration, id jute.SessionID, resumed bool, exists func(jute.SessionID) bool) (ok, exceeds bool) {
	m.mu.Lock()
	_, known := m.mu.sessions[id]
	full := m.limit.Hard > 0 && int64(len(m.mu.sessions)) >= m.limit.Hard
	m.mu.Unlock()
	if full && !known {
		m.pruneSessions(now, exists)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limit.Hard > 0 && int64(len(m.mu.sessions)) >= m.limit.Hard && !resumed && !known {
		return false, m.refuseLocked()
	}
	if m.mu.sessions == nil {
		m.mu.sessions = make(map[jute.SessionID]time.Duration)
	}
	m.mu.sessions[id] = now + arrival
	m.mu.used = int64(len(m.mu.sessions))
	return true, m.noteLocked()
}

// removeSession forgets a session.
func (m *meter) removeSession(id jute.SessionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.sessions, id)
	m.mu.used = int64(len(m.mu.sessions))
}

// pruneSessions forgets the sessions that have ended.
func (m *meter) pruneSessions(now time.Duration, exists func(jute.SessionID) bool) {
	m.mu.Lock()
	list := slices.Collect(maps.Keys(m.mu.sessions))
	m.mu.Unlock()
	list = slices.DeleteFunc(list, exists)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range list {
		if m.mu.sessions[id] <= now {
			delete(m.mu.sessions, id)
		}
	}
	m.mu.used = int64(len(m.mu.sessions))
	m.calmLocked()
}

// established ends the time in which a session that does not exist counts.
func (m *meter) established(now time.Duration, id jute.SessionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.mu.sessions[id]; ok {
		m.mu.sessions[id] = now
	}
}

// idle reports whether a meter without clients has nothing to remember.
func (m *meter) idle(now time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mu.sessions) == 0 && m.mu.soft.full(now) && m.mu.hard.full(now)
}

// inUse returns what is used. count counts watches and ephemerals; it is called without locks.
func (m *meter) inUse(now time.Duration, count func(*meter) int64) int64 {
	if m.resource == Watches || m.resource == Ephemerals {
		return count(m)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.resource.isRate() {
		return m.mu.used
	}
	b, limit := m.mu.hard, m.limit.Hard
	if limit == 0 {
		b, limit = m.mu.soft, m.limit.Soft
	}
	taken := min(max(time.Duration(b)-now, 0), burst)
	return int64(float64(limit) * taken.Seconds())
}
