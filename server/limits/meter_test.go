package limits

import (
	"math"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
)

func TestCostIsRoundedUp(t *testing.T) {
	for _, x := range []struct {
		n, perSecond int64
		want         time.Duration
	}{
		{0, 3, 0}, {1, 1, time.Second}, {1, 3, 333_333_334}, {3, 3, time.Second}, {1, 2_000_000_000, 1},
		{math.MaxInt64, 1, longest}, {math.MaxInt64, math.MaxInt64, time.Second},
	} {
		if got := cost(x.n, x.perSecond); got != x.want {
			t.Errorf("%d at %d a second cost %v, want %v", x.n, x.perSecond, got, x.want)
		}
	}
}

// TestAddsDuringACount counts what is used while others add to it.
func TestAddsDuringACount(t *testing.T) {
	m := meter{limit: Limit{Hard: 10}, stats: new(stats)}
	m.outdated()
	ok, _ := m.add(1, func() int64 {
		m.add(2, nil)
		return 5
	})
	if !ok || m.mu.used != 8 {
		t.Errorf("%d are used (%v), want the 5 that were counted, 2 of others and 1", m.mu.used, ok)
	}
}

// TestASessionCountsOnce adds a session again that is counted, where there is no room for another one.
func TestASessionCountsOnce(t *testing.T) {
	m := meter{limit: Limit{Hard: 1}, stats: new(stats)}
	exists := func(jute.SessionID) bool { return true }
	for _, x := range []struct {
		id      jute.SessionID
		resumed bool
		want    bool
	}{{1, false, true}, {1, false, true}, {2, false, false}, {3, true, true}} {
		if ok, _ := m.addSession(0, x.id, x.resumed, exists); ok != x.want {
			t.Errorf("session %d, resumed %v: %v, want %v", x.id, x.resumed, ok, x.want)
		}
	}
}
