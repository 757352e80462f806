package limits

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/zkd-project/zkd/server/limits/shares"
)

// leastReported is the part of a limit from which on its use is reported.
const leastReported = 64

// shortFor is for how long it counts that a request had to wait: a client that waits for its turn, or for a refusal, makes no
// request meanwhile.
const shortFor = 2 * time.Second

// shared is what a table knows of the shares of its server in the limits of rates: see package shares. Table.mu guards it.
type shared struct {
	meters   map[shares.Key]*meter
	rates    map[shares.Key]int64 // the shares; other limits are this server's as a whole
	until    time.Duration        // for which time they hold
	reported time.Duration        // when Uses was last called
}

// add adds a meter, whose share may be known.
func (s *shared) add(m *meter, of *meterKey) {
	m.key = keyOf(of)
	m.mu.rate = m.shareOf(s.rates)
	s.meters[m.key] = m
}

func (s *shared) remove(m *meter) {
	if s.meters[m.key] == m {
		delete(s.meters, m.key)
	}
}

// divides reports whether this server has a share of a limit.
func (s *shared) divides(m *meter) bool {
	_, divided := s.rates[m.key]
	return divided && s.meters[m.key] == m
}

// keyOf returns the key that the same meter has on all servers with the same rule, whatever its name is.
func keyOf(k *meterKey) (key shares.Key) {
	l := k.rule.Limits[k.resource]
	b := []byte{byte(k.rule.Scope), byte(k.resource)}
	b = binary.AppendVarint(binary.AppendVarint(b, l.Soft), l.Hard)
	b = binary.AppendUvarint(b, uint64(len(k.rule.Subject)))
	b = append(append(b, k.rule.Subject...), k.subject...)
	sum := sha256.Sum256(b)
	copy(key[:], sum[:])
	return key
}

// isRate reports whether a resource is used per second.
func (r Resource) isRate() bool { return r >= Requests }

func (m *meter) shareOf(rates map[shares.Key]int64) int64 {
	whole := shares.Scale * m.base()
	if rate, divided := rates[m.key]; divided {
		return max(1, min(rate, whole))
	}
	return whole
}

// base is the limit that is divided.
func (m *meter) base() int64 { return cmp.Or(m.limit.Hard, m.limit.Soft) }

// softRate returns the soft limit that is in force, in thousandths per second.
func (m *meter) softRate() int64 {
	if m.limit.Hard == 0 {
		return m.mu.rate
	}
	return max(1, int64(float64(m.mu.rate)*float64(m.limit.Soft)/float64(m.limit.Hard)))
}

// setRate changes the rate. What has been used too early is paid at the new one if that is higher.
func (m *meter) setRate(now time.Duration, rate int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if debt := m.mu.hard.wait(now); debt > 0 && rate > m.mu.rate {
		debt = time.Duration(float64(debt) * float64(m.mu.rate) / float64(rate))
		m.mu.hard = bucket(now + burst + debt)
	}
	m.mu.rate = rate
}

// report returns what was used since the last report, if that is worth one.
func (m *meter) report(now, since time.Duration) (u shares.Use, worth bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u = shares.Use{Key: m.key, Limit: m.base(), Used: int64(float64(m.mu.used) / since.Seconds()), Short: now < m.mu.short}
	m.mu.used = 0
	if waitsUntold.Planted() {
		u.Short = false
	}
	return u, u.Short || u.Used >= max(1, u.Limit/leastReported)
}

// Uses returns what was used of the limits of rates since the last call: those of which most was used. It is to be called each
// shares.Period.
func (t *Table) Uses(now time.Duration) (uses []shares.Use) {
	t.mu.Lock()
	s := &t.shared
	since := max(now-s.reported, time.Millisecond)
	s.reported = now
	over := len(s.rates) > 0 && now >= s.until
	over = over && !wordForEver.Planted()
	if over {
		t.setSharesLocked(now, nil)
	}
	list := make([]*meter, 0, len(s.meters))
	for _, m := range s.meters {
		list = append(list, m)
	}
	t.mu.Unlock()
	for _, m := range list {
		if u, worth := m.report(now, since); worth {
			uses = append(uses, u)
		}
	}
	if len(uses) > shares.MostUses {
		part := func(u *shares.Use) float64 { return float64(u.Used) / float64(u.Limit) }
		slices.SortFunc(uses, func(a, b shares.Use) int { return cmp.Compare(part(&b), part(&a)) })
		uses = uses[:shares.MostUses]
	}
	return uses
}

// SetShares replaces the shares that this server has of limits.
func (t *Table) SetShares(now time.Duration, list []shares.Share) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shared.until = now + shares.Word
	t.setSharesLocked(now, list)
}

func (t *Table) setSharesLocked(now time.Duration, list []shares.Share) {
	s := &t.shared
	before := s.rates
	s.rates = make(map[shares.Key]int64, len(list))
	for _, x := range list {
		s.rates[x.Key] = x.Rate
		delete(before, x.Key)
		if m := s.meters[x.Key]; m != nil {
			m.setRate(now, m.shareOf(s.rates))
		}
	}
	for key := range before {
		if m := s.meters[key]; m != nil {
			m.setRate(now, m.shareOf(nil))
		}
	}
}
