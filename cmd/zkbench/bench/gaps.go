package bench

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Gap is a time without a successful write: between the arrival of a reply to
// one, on any connection, and the arrival of the next.
type Gap struct {
	At   float64 `json:"at_seconds"` // its beginning, since the load began
	Long float64 `json:"seconds"`
}

// keptGaps is how many of the longest gaps are kept.
const keptGaps = 10

// Outage is the effect on a load of writes while servers stopped and started.
type Outage struct {
	Gaps       []Gap `json:"gaps"`                // the longest ones, longest first
	Reconnects int64 `json:"reconnects"`          // connections after the first of each session
	Unknown    int64 `json:"writes_unknown"`      // without a reply: done or not
	Refused    int64 `json:"writes_refused"`      // with an error code
	Expired    int64 `json:"sessions_expired"`    // and replaced by new ones
	Attempts   int64 `json:"connection_attempts"` // that failed
}

// Longest returns the longest gap.
func (o *Outage) Longest() Gap {
	if len(o.Gaps) == 0 {
		return Gap{}
	}
	return o.Gaps[0]
}

// tracker collects the results of all writers of a load. It is safe for concurrent use.
type tracker struct {
	mu      sync.Mutex
	outage  Outage
	began   int64 // clock time of the load's begin
	last    int64 // of the last successful write
	longest int64 // end of the longest gap since mark
	ops     int64
	wrong   int64
	err     error // the first wrong reply
	latency *hdrhistogram.Histogram
}

func newTracker(now int64) *tracker {
	return &tracker{began: now, last: now, longest: now, latency: newLatency()}
}

// wrote records a successful write, sent and answered at these times.
func (t *tracker) wrote(sent, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ops++
	// Can't fail: the value is within what the histogram tracks.
	_ = t.latency.RecordValue(min(max(now-sent, 0), maxLatency))
	if now <= t.last {
		return // another connection's reply came later and was noted first
	}
	t.gap(now)
	t.last = now
}

// gap records the time since the last successful write.
func (t *tracker) gap(now int64) {
	g := Gap{At: seconds(t.last - t.began), Long: seconds(now - t.last)}
	gs := t.outage.Gaps
	if len(gs) == keptGaps && g.Long <= gs[keptGaps-1].Long {
		return
	}
	if len(gs) == 0 || g.Long > gs[0].Long {
		t.longest = now
	}
	gs = append(gs, g)
	slices.SortStableFunc(gs, func(a, b Gap) int { return cmp.Compare(b.Long, a.Long) })
	t.outage.Gaps = gs[:min(len(gs), keptGaps)]
}

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }

// forget resets the gaps. An open gap counts in full.
func (t *tracker) forget(now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.longest, t.outage.Gaps = now, nil
}

// steady reports whether the longest gap is over: writes succeed, and no longer gap has come
// for the given time.
func (t *tracker) steady(now int64, settle, pause time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now-t.last < int64(pause) && now-t.longest >= int64(settle)
}

// count adds one to a counter of the outage.
func (t *tracker) count(n *int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n++
}

// fault records a wrong reply.
func (t *tracker) fault(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wrong++; t.err == nil {
		t.err = err
	}
}

// snapshot returns a copy of the results.
func (t *tracker) snapshot() Outage {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.outage
	o.Gaps = slices.Clone(o.Gaps)
	return o
}
