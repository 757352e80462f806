package memory

import (
	"context"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/internal/pause"
)

// Faults of what is shown while the servers are away.
var (
	awayOverdue  = mutant.New("away-overdue")  // what is known is shown for longer than Options.For
	awayAgeless  = mutant.New("away-ageless")  // it counts as current without a server that says so
	awayUnlisted = mutant.New("away-unlisted") // all subtrees are shown, and not those of Options.Stale alone
	awayStays    = mutant.New("away-stays")    // an absence is not over when there is a server again
	awayEarly    = mutant.New("away-early")    // it begins with the loss of one connection
)

// AwayAfter is how long the memory reaches no server before they are away. Servers without a leader wait as long before they serve read-only clients.
const AwayAfter = 2 * time.Second

const (
	keepUpEvery = 100 * time.Millisecond // when clients have seen more than the memory has
	currentFor  = time.Second            // how old the memory's knowledge may get otherwise
)

// Absence is a time in which the servers are away: no server with a quorum is reached. It may not have begun.
type Absence struct {
	Begun, Over context.Context // which end then
	begin, end  context.CancelFunc
}

func newAbsence() *Absence {
	a := new(Absence)
	a.Begun, a.begin = context.WithCancel(context.Background())
	a.Over, a.end = context.WithCancel(context.Background())
	return a
}

// Absence returns the present absence, or the next one.
func (m *Memory) Absence() *Absence { return m.absence.Load() }

// Away reports whether the servers are away.
func (m *Memory) Away() bool { return m.Absence().Begun.Err() != nil }

// over ends the absence, if it has begun: there is a server, or nothing to be shown any more.
func (m *Memory) over(why string) {
	a := m.absence.Load()
	begun := a.Begun.Err() != nil
	begun = begun && !awayStays.Planted()
	if !begun {
		return
	}
	m.o.Log.Info("there are no read-only sessions any more", "paths", m.o.Stale, "why", why)
	m.absence.Store(newAbsence())
	a.end()
}

// followServers begins and ends absences.
func (m *Memory) followServers() {
	defer m.over("the subtrees are not kept any more")
	after := AwayAfter
	if awayEarly.Planted() {
		after = 0
	}
	states := m.client.Session().States(m.stop)
	begins := time.NewTimer(after)
	defer begins.Stop()
	look := time.NewTicker(lookEvery) // no timer for the end: timers stand still while the machine is suspended
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if m.Away() && m.Known().Current.IsZero() {
				m.over("what is known is older than edge.staleFor")
			}
		case <-begins.C:
			if m.client.Status().Server == "" {
				if k := m.Known(); !k.Current.IsZero() {
					m.o.Log.Warn("no server is reached; read-only sessions are shown what is known", "paths", m.o.Stale, "as of", k.Current, "until", k.Until)
				}
				m.absence.Load().begin()
			}
		case s, ok := <-states:
			switch {
			case !ok || s.To == client.StateAuthFailed || s.To == client.StateClosed:
				return
			case s.To.Connected():
				begins.Stop()
				m.over("a server is reached")
			case s.To == client.StateSuspended:
				begins.Reset(after)
			}
		}
	}
}

// keepUp has the subtrees of Options.Stale be complete up to what clients have seen, and notes that they are current.
func (m *Memory) keepUp() {
	for pause.For(m.stop, keepUpEvery) == nil {
		now := m.o.Clock.Now()
		for _, t := range m.trees {
			if awayAgeless.Planted() && t.stale {
				m.mu.Lock()
				t.current = now
				m.mu.Unlock()
			}
			if t.stale && t.lags(now) {
				t.keepUp(now)
			}
		}
	}
}

// lags reports whether the subtree has to be made current.
func (t *tree) lags(now time.Duration) bool {
	if _, stale := t.cache.Stale(); stale {
		return false
	}
	version := t.cache.Version()
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	return now-t.current >= currentFor || version < t.m.o.Seen()
}

func (t *tree) keepUp(now time.Duration) {
	ctx, cancel := context.WithTimeout(t.m.stop, catchUpTime)
	defer cancel()
	if t.cache.Sync(ctx) != nil {
		return
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.current = now
}

// SeeLast calls take with what is known of a path in a subtree of Options.Stale, and returns whether it did: it was so up to Zxid, which is known to
// have been the present at most Options.For ago.
func (m *Memory) SeeLast(path string, take func(*client.Remembered)) bool {
	t := m.treeOf(path)
	if t == nil || !t.stale {
		return false
	}
	if _, left := t.age(); left < 0 {
		return false
	}
	return t.cache.SeeLast(path, func(s *cache.Seen) {
		n := remembered(s, s.Version)
		take(&n)
	})
}

// age returns how long ago the subtree was current, and for how much longer it is shown.
func (t *tree) age() (age, left time.Duration) {
	m := t.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.current == 0 {
		return 0, -1
	}
	age = m.o.Clock.Now() - t.current
	left = m.o.For - age
	if awayOverdue.Planted() {
		left += m.o.For
	}
	return age, left
}

// Known is what a memory can show while the servers are away.
type Known struct {
	Current time.Time   // since when it may have changed; zero if there is nothing
	Until   time.Time   // up to when it is shown
	Zxid    client.Zxid // the most that a client may have seen that is shown something
}

// Known returns that. Of several subtrees it is the latest.
func (m *Memory) Known() (k Known) {
	now := time.Now()
	for _, t := range m.trees {
		age, left := t.age()
		if !t.stale || left < 0 || t.cache.Err() != nil {
			continue
		}
		if current := now.Add(-age); current.After(k.Current) {
			k.Current, k.Until = current, now.Add(left)
		}
		k.Zxid = max(k.Zxid, t.cache.Version())
	}
	return k
}
