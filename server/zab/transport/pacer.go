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

	// windowAge is how long a pause makes a sender forget what it has learned of
	// the way: the way may be slower now. On a fast way it is learned again within a
	// few round trips.
	windowAge = 50 * time.Millisecond
	// baseAge is how long the window may be at its least before the delay that
	// remains is taken for that of the empty way, and mostBase is the most that
	// is: others that share the way may be the reason.
	baseAge  = 10 * time.Second
	mostBase = 500 * time.Millisecond
)

// pacer bounds the bulk bytes of one connection that have been written and that
// the other end has not read yet. These fill the buffers of sockets, routers and
// relays, and what is written after them waits for as long as they take.
//
// The receiver credits bulk bytes, and at once those for which the sender asks, which it
// does when half of the window is on its way. The pacer measures the time from the write
// of these to their credit and keeps what exceeds the delay of the empty way
// below a target: once per round trip the window shrinks in proportion when the
// excess was above the target all the time, and grows when it is below a quarter of
// it and the window was what the sender had to wait for, the faster the further below.
// So a fast way gets a window that never limits it, and a slow one the bytes that it
// passes in a part of the target.
//
// TCP's congestion control does not do that: it fills the buffers until one of
// them overflows. Delay-based controls, such as LEDBAT (RFC 6817), do.
//
// Invariant: when a write begins, what is on its way is no more than the window
// with it, or was less than a receiver leaves uncredited for good. So a sender never
// waits for a credit that does not come.
type pacer struct {
	target time.Duration
	base   *atomic.Int64 // least delay of the way, ns; shared by the connections to a peer

	window     int
	sent, read uint64 // bulk bytes since the connection began
	marks      []mark // of writes that are not fully credited, oldest first
	wroteAt    time.Time

	round     uint64        // the round trip ends when so many bytes have been read
	least     time.Duration // delay in this round trip
	last      time.Duration // newest delay
	limited   bool          // the sender has waited for the window in this round trip
	lowSince  time.Time     // since when the window is at its least; zero if it is not
	lowestNow time.Duration // least delay since then
}

// mark says when the bytes from start to end began to be written, which asked for a
// credit.
type mark struct {
	start, end uint64
	at         time.Time
}

// markEvery bounds the marks: writes that follow each other within it share one.
const markEvery = time.Millisecond

func newPacer(target time.Duration, base *atomic.Int64) pacer {
	return pacer{target: target, base: base, window: firstWindow, least: math.MaxInt64}
}

// unread returns how many bytes are on their way.
func (p *pacer) unread() int { return int(p.sent - p.read) }

// age forgets after a pause what was learned of the way.
func (p *pacer) age(now time.Time) {
	if p.unread() < creditStep && now.Sub(p.wroteAt) >= windowAge {
		p.window = min(p.window, firstWindow)
		p.lowSince = time.Time{}
	}
}

// room returns how many bytes may be written now, if there are n to be written at
// once; 0 if these must wait.
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

// quiet returns how many bytes may be written now that need not ask for a credit.
func (p *pacer) quiet() int { return p.window/2 - p.unread() }

// write notes that bytes are about to be written, first some that do not ask for a
// credit, and then some that do.
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

// credit takes in that the other end has read so many bytes, in all. It returns
// false if that can't be.
func (p *pacer) credit(read uint64, now time.Time) bool {
	if read < p.read || read > p.sent {
		return false
	}
	p.read = read
	k := 0
	for k < len(p.marks) && p.marks[k].end < read {
		k++
	}
	if k < len(p.marks) && p.marks[k].start < read { // it has the byte that the other end read last
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
	case p.last-base < p.target/32:
		p.window = min(8*p.window, mostWindow)
	case p.last-base < p.target/8:
		p.window = min(2*p.window, mostWindow)
	default:
		p.window = min(p.window+p.window/8, mostWindow)
	}
	p.rebase(now)
}

// rebase finds out that the empty way has become longer, as when the network
// takes another route: then the delay stays high however little is on its way.
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
