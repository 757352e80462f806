package replica

import (
	"time"

	"github.com/zkd-project/zkd/internal/fifo"
	"github.com/zkd-project/zkd/jute"
)

// pace bounds how many bytes of long requests a leader has under way, which means proposed and not
// committed, while short requests come: each of these waits for everything that was
// proposed before it. Without short requests the only bound is Limits.Log.
//
// The bound follows from the time from an entry's proposal to its commit. base is the least of that in the last
// seconds: a sync of the log, and a round trip to the other servers. The window of long requests
// grows while they take little longer than base, and shrinks while they take several times
// as long. So it is about what the disks and the links carry within base: less would not be
// faster, and more would only wait.
//
// The zero pace has the smallest window.
type pace struct {
	window   int64 // the bound in bytes; a request may exceed it
	underWay int64
	marks    fifo.List[mark] // of what is under way, oldest first
	base     time.Duration   // the least in this time and the one before; 0 if unknown
	next     time.Duration   // the least in this time
	renewAt  time.Duration   // when this time ends
	shortAt  time.Duration   // when the last short request came; 0 for never

	// The window is set once in a round, which ends when everything is committed that
	// was proposed when it began.
	round   jute.Zxid
	least   time.Duration // that a long request took in this round; 0 for none
	limited bool          // a request has waited for the window in this round
}

// mark is a row of entries, all short or all long, that were proposed at the same time.
type mark struct {
	at   time.Duration
	upTo jute.Zxid
	long int64 // their bytes, if they are long
}

const (
	// longRequest is the size of a long request, in bytes.
	longRequest = 4096
	leastWindow = 64 << 10
	mostWindow  = 4 << 20
	// leastDelay is how much longer than base a long request may always take: on fast disks, what
	// the scheduler adds counts for more than the bytes.
	leastDelay = time.Millisecond
	// baseAge is after how long base is forgotten: the path may be slower now.
	baseAge = 10 * time.Second
	// shortAge is how long the bound stays after a short request.
	shortAge = time.Second
)

// inForce reports whether there is a bound.
func (p *pace) inForce(now time.Duration) bool { return p.shortAt > 0 && now-p.shortAt < shortAge }

// full reports whether a long request has to wait until others are committed.
func (p *pace) full(now time.Duration) bool {
	return p.inForce(now) && p.underWay > 0 && p.underWay >= max(p.window, leastWindow)
}

// proposed records an entry.
func (p *pace) proposed(zxid jute.Zxid, bytes int, now time.Duration) {
	n, long := p.marks.Len(), bytes >= longRequest
	if n == 0 || p.marks.All()[n-1].at != now || p.marks.All()[n-1].long > 0 != long {
		p.marks.Push(mark{at: now})
		n++
	}
	last := &p.marks.All()[n-1]
	last.upTo = zxid
	if long {
		last.long += int64(bytes)
		p.underWay += int64(bytes)
	}
}

// committed records that the entries up to zxid are committed.
func (p *pace) committed(zxid jute.Zxid, now time.Duration) {
	for p.marks.Len() > 0 && p.marks.Front().upTo <= zxid {
		m := p.marks.Front()
		took := max(now-m.at, 1)
		p.measure(took, now)
		if m.long > 0 && (p.least == 0 || took < p.least) {
			p.least = took
		}
		p.underWay -= m.long
		last := m.upTo
		p.marks.Pop(1)
		if last >= p.round {
			p.adapt()
			p.round = zxid + 1
			if n := p.marks.Len(); n > 0 {
				p.round = p.marks.All()[n-1].upTo
			}
		}
	}
}

// measure updates base.
func (p *pace) measure(took, now time.Duration) {
	if p.base == 0 {
		p.base, p.next, p.renewAt = took, took, now+baseAge
	}
	p.base, p.next = min(p.base, took), min(p.next, took)
	if now >= p.renewAt {
		p.base, p.next, p.renewAt = p.next, took, now+baseAge
	}
}

// adapt sets the window at the end of a round.
func (p *pace) adapt() {
	excess, allowed := p.least-p.base, max(p.base, leastDelay)
	w := max(p.window, leastWindow)
	switch {
	case !p.limited || p.least == 0: // the window was not used
	case excess <= allowed/2:
		p.window = min(2*w, mostWindow)
	case excess <= allowed:
		p.window = min(w+w/8, mostWindow)
	default:
		p.window = max(w/2, w*int64(allowed)/int64(excess), leastWindow)
	}
	p.least, p.limited = 0, false
}
