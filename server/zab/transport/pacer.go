package transport

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	leastWindow = 16 << 10
	firstWindow = 64 << 10
	mostWindow  = 8 << 20

	// windowAge is the pause after which a sender forgets what it has learned about the path: the
	// path may be slower now. On a fast path it is learned again within a few round trips. On a long
	// one the pause is several round trips: a sender that waits for replies pauses for one.
	windowAge   = 50 * time.Millisecond
	windowTrips = 4
	// baseAge is how long the window may be at its minimum before the delay that remains is taken
	// as that of the idle path. mostBase is the maximum of that delay, since other users of the
	// path may cause it.
	baseAge  = 10 * time.Second
	mostBase = 500 * time.Millisecond
)

// pacer bounds the bulk bytes of one connection that have been written and that the peer
// has not read yet. They fill the buffers of sockets, routers and relays, and delay
// everything that is written after them.
//
// The receiver credits bulk bytes. It does so at once for those for which the sender asks,
// which it does when half of the window is in flight. The pacer measures the time from the
// write of these bytes to their credit, and keeps its excess over the delay of the idle
// path below a target. Once per round trip the window shrinks in proportion if the excess
// was above the target all the time. It grows if the excess is below a quarter of the
// target and the sender had to wait for the window; the further below, the faster, but at most
// to twice its size: what is too much for the path is then at most what it takes per round trip. So a
// fast path gets a window that never limits it, and a slow path the bytes that it passes in
// a part of the target.
//
// TCP's congestion control does not achieve this: it fills the buffers until one of them
// overflows. Delay-based controls, such as LEDBAT (RFC 6817), do.
//
// Invariant: when a write begins, the bytes in flight either fit into the window together
// with it, or were fewer than a receiver leaves uncredited indefinitely. So a sender never
// waits for a credit that does not come.
type pacer struct {
	target time.Duration
	base   *atomic.Int64 // minimum delay of the path, ns; shared by the connections to a peer

	window     int
	sent, read uint64 // bulk bytes since the connection began
	marks      []mark // of writes that are not fully credited, oldest first
	wroteAt    time.Time

	round     uint64        // the round trip ends when this many bytes have been read
	least     time.Duration // delay in this round trip
	last      time.Duration // newest delay
	limited   bool          // the sender has waited for the window in this round trip
	lowSince  time.Time     // when the window reached its minimum; zero if it is larger
	lowestNow time.Duration // minimum delay since then
}

// mark records when the bytes from start to end, which asked for a credit, began to be
// written.
type mark struct {
	start, end uint64
	at         time.Time
}

// markEvery bounds the marks: writes within this time of each other share one.
const markEvery = time.Millisecond

func newPacer(target time.Duration, base *atomic.Int64) pacer {
	return pacer{target: target, base: base, window: firstWindow, least: math.MaxInt64}
}

// unread returns how many bytes are in flight.
func (p *pacer) unread() int { return int(p.sent - p.read) }

// age forgets after a pause what was learned about the path.
func (p *pacer) age(now time.Time) {
	pause := max(windowAge, windowTrips*time.Duration(p.base.Load()))
	if p.unread() < creditStep && now.Sub(p.wroteAt) >= pause {
		p.window = min(p.window, firstWindow)
		p.lowSince = time.Time{}
	}
}

// room returns how many bytes may be written now, if n are to be written at once; 0 if they
// must wait.
func (p *pacer) room(n int, now time.Time) int {
	p.age(now)
	room := p.window - p.unread()
	switch {
	case n <= room:
		return room
	case p.unread() < creditStep:
		return n
	}
	p.limited = true
	return 0
}

// quiet returns how many bytes may be written now without asking for a credit.
func (p *pacer) quiet() int { return p.window/2 - p.unread() }

// write records that bytes are about to be written: first those that do not ask for a
// credit, then those that do.
func (p *pacer) write(unasked, asking int, now time.Time) {
	p.wroteAt = now
	start := p.sent + uint64(unasked)
	p.sent = start + uint64(asking)
	if k := len(p.marks); asking > 0 && k > 0 && now.Sub(p.marks[k-1].at) < markEvery {
		p.marks[k-1].end = p.sent
	} else if asking > 0 {
		p.marks = append(p.marks, mark{start, p.sent, now})
	}
}

// credit records that the peer has read read bytes in total. It returns false if that is
// impossible.
func (p *pacer) credit(read uint64, now time.Time) bool {
	if read < p.read || read > p.sent {
		return false
	}
	p.read = read
	k := 0
	for k < len(p.marks) && p.marks[k].end < read {
		k++
	}
	if k < len(p.marks) && p.marks[k].start < read { // it has the byte that the peer read last
		p.last = now.Sub(p.marks[k].at)
		p.least = min(p.least, p.last)
		if p.marks[k].end == read {
			k++
		}
	}
	p.marks = append(p.marks[:0], p.marks[k:]...)
	if read >= p.round && p.least != math.MaxInt64 {
		p.adapt(now)
		p.round, p.least, p.limited = p.sent, math.MaxInt64, false
	}
	return true
}

// adapt sets the window for the next round trip.
func (p *pacer) adapt(now time.Time) {
	if base := p.base.Load(); base == 0 || int64(p.least) < base {
		p.base.Store(max(int64(p.least), 1))
	}
	base := time.Duration(p.base.Load())
	switch excess := p.least - base; {
	case excess > p.target:
		p.window = max(int(float64(p.window)*max(0.5, float64(p.target)/float64(excess))), leastWindow)
	case !p.limited || p.last-base >= p.target/4:
	case p.last-base < p.target/8:
		p.window = min(2*p.window, mostWindow)
	default:
		p.window = min(p.window+p.window/8, mostWindow)
	}
	p.rebase(now)
}

// rebase detects that the idle path has become longer, for example because the network
// takes another route: then the delay stays high however little is in flight.
func (p *pacer) rebase(now time.Time) {
	switch {
	case p.window > leastWindow:
		p.lowSince = time.Time{}
	case p.lowSince.IsZero():
		p.lowSince, p.lowestNow = now, p.least
	default:
		p.lowestNow = min(p.lowestNow, p.least)
		if now.Sub(p.lowSince) >= baseAge {
			p.base.Store(max(p.base.Load(), int64(min(p.lowestNow, mostBase))))
			p.lowSince = time.Time{}
		}
	}
}
