package replica

import (
	"time"

	"github.com/zkd-project/zkd/internal/fifo"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/limits"
)

// pace bounds how much a leader has under way of what delays the requests after it:
//
//   - The bytes of long requests that are proposed and not committed, while short requests come: each of
//     these waits for everything that was proposed before it. Without short requests the only bound is
//     Limits.Log.
//   - The short requests that are proposed and not committed, while several subjects make requests. What is proposed has no turns any more: with
//     a bound, requests wait where subjects have turns by their weights.
//   - The closings of sessions that are proposed and not applied: a write is answered after the
//     closings before it are applied, and each may delete thousands of ephemerals.
//
// The bounds follow from the time that these take. base is the least time from an entry's proposal
// to its commit in the last seconds: a sync of the log, and a round trip to the other servers. A window
// grows while what it bounds takes little longer than base, and shrinks while that takes several times
// as long. So it is about what the disks, the links and the applier get done within base: less would not be
// faster, and more would only wait.
type pace struct {
	marks   fifo.List[mark] // of the entries that are not committed, oldest first
	base    time.Duration   // the least in this time and the one before; 0 if unknown
	next    time.Duration   // the least in this time
	renewAt time.Duration   // when this time ends
	shortAt time.Duration   // when the last short request came; 0 for never
	subject limits.Subject  // of which a request came last
	mixedAt time.Duration   // when one of another subject came; 0 for never

	long     window // long requests, until they are committed
	short    window // short requests, until they are committed; each counts workBytes more than it is long
	closings window // closings, until they are applied; the work for one counts as workBytes
}

// mark is a row of entries that were proposed at the same time.
type mark struct {
	at   time.Duration
	upTo jute.Zxid
	size int64 // of a window
}

// window bounds the size of the entries of a kind that are under way.
type window struct {
	size        int64 // the bound; an entry may exceed it
	least, most int64 // bounds of size
	underWay    int64
	marks       fifo.List[mark] // of what is under way, oldest first

	// The size is set once in a round, which ends when everything is done that was under way
	// when it began.
	round   jute.Zxid
	took    time.Duration // the least that an entry took in this round; 0 for none
	limited bool          // a request has waited for the window in this round

	aside bool // lists of requests are set aside because the window was full
}

const (
	// longRequest is the size of a long request, in bytes.
	longRequest = 4096
	// workBytes is how many bytes of a transaction count as much as one of its operations.
	workBytes   = 256
	leastWindow = 64 << 10
	// leastShort is some 300 requests of 100 bytes, which share a sync: with half of it they were a third fewer a second on a
	// busy machine, and with twice of it as many as without a bound.
	leastShort = 128 << 10
	// leastClosings takes an applier some milliseconds. With less, 100,000 ephemerals would take too many
	// rounds on a machine that is so busy that each hand-over between goroutines takes milliseconds.
	leastClosings = 1024 * workBytes
	mostWindow    = 4 << 20
	// leastDelay is how much longer than base an entry of a window may always take: on fast disks, what
	// the scheduler adds counts for more than the size.
	leastDelay = time.Millisecond
	// baseAge is after how long base is forgotten: the path may be slower now.
	baseAge = 10 * time.Second
	// shortAge is how long the bound of long requests stays after a short one.
	shortAge = time.Second
)

// newPace returns a pace with the smallest windows. If closings or short is not 0, it is the size of their window.
func newPace(closings, short int64) pace {
	p := pace{long: window{size: leastWindow, least: leastWindow, most: mostWindow}}
	p.closings = window{size: leastClosings, least: leastClosings, most: mostWindow}
	if closings != 0 {
		p.closings = window{size: closings, least: closings, most: closings}
	}
	p.short = window{size: leastShort, least: leastShort, most: mostWindow}
	if short != 0 {
		p.short = window{size: short, least: short, most: short}
	}
	return p
}

// came notes that a request of a subject came, while none of its connection waited.
func (p *pace) came(subject limits.Subject, now time.Duration) {
	if subject != p.subject && p.subject != (limits.Subject{}) {
		p.mixedAt = now
	}
	p.subject = subject
}

// mixed reports whether there is a bound of short requests.
func (p *pace) mixed(now time.Duration) bool { return p.mixedAt > 0 && now-p.mixedAt < shortAge }

// holds reports whether a short request has to wait until others are committed, and with it all after it.
func (p *pace) holds(now time.Duration) bool {
	full := p.mixed(now) && p.short.full()
	full = full && !shortUnbounded.Planted()
	p.short.limited = p.short.limited || full
	return full
}

// inForce reports whether there is a bound of long requests.
func (p *pace) inForce(now time.Duration) bool { return p.shortAt > 0 && now-p.shortAt < shortAge }

// full reports whether a long request has to wait until others are committed.
func (p *pace) full(now time.Duration) bool { return p.inForce(now) && p.long.full() }

// waits reports whether a request has to wait for its window, and notes that it does.
func (p *pace) waits(req *evaluate.Request, now time.Duration) bool {
	closing := req.Op == jute.OpCloseSession && p.closings.full()
	closing = closing && !closingsUnbounded.Planted()
	var w *window
	switch {
	case closing:
		w = &p.closings
	case len(req.Body) >= longRequest && p.full(now):
		w = &p.long
	default:
		return false
	}
	w.limited, w.aside = true, true
	return true
}

// opened reports whether requests that were set aside need not wait any more, at least some.
func (p *pace) opened(now time.Duration) bool {
	if p.long.aside && !p.full(now) || p.closings.aside && !p.closings.full() {
		p.long.aside, p.closings.aside = false, false
		return true
	}
	return false
}

// proposed records an entry.
func (p *pace) proposed(zxid jute.Zxid, bytes int, now time.Duration) {
	record(&p.marks, zxid, 0, now)
	switch {
	case bytes >= longRequest:
		p.long.proposed(zxid, int64(bytes), now)
	case p.mixed(now):
		p.short.proposed(zxid, int64(bytes)+workBytes, now)
	}
}

// committed records that the entries up to zxid are committed.
func (p *pace) committed(zxid jute.Zxid, now time.Duration) {
	for p.marks.Len() > 0 && p.marks.Front().upTo <= zxid {
		p.measure(max(now-p.marks.Front().at, 1), now)
		p.marks.Pop(1)
	}
	p.long.done(zxid, p.base, now)
	p.short.done(zxid, p.base, now)
}

// applied records that the entries up to zxid are applied.
func (p *pace) applied(zxid jute.Zxid, now time.Duration) { p.closings.done(zxid, p.base, now) }

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

// record adds an entry to the last mark, or to a new one if that is of another time.
func record(marks *fifo.List[mark], zxid jute.Zxid, size int64, now time.Duration) {
	n := marks.Len()
	if n == 0 || marks.All()[n-1].at != now {
		marks.Push(mark{at: now})
		n++
	}
	last := &marks.All()[n-1]
	last.upTo = zxid
	last.size += size
}

// full reports whether an entry has to wait until others are done.
func (w *window) full() bool { return w.underWay > 0 && w.underWay >= w.size }

// proposed records an entry.
func (w *window) proposed(zxid jute.Zxid, size int64, now time.Duration) {
	record(&w.marks, zxid, size, now)
	w.underWay += size
}

// done records that the entries up to zxid are done.
func (w *window) done(zxid jute.Zxid, base, now time.Duration) {
	for w.marks.Len() > 0 && w.marks.Front().upTo <= zxid {
		m := *w.marks.Front()
		w.marks.Pop(1)
		if took := max(now-m.at, 1); w.took == 0 || took < w.took {
			w.took = took
		}
		w.underWay -= m.size
		if m.upTo >= w.round {
			w.adapt(base)
			w.round = m.upTo + 1
			if n := w.marks.Len(); n > 0 {
				w.round = w.marks.All()[n-1].upTo
			}
		}
	}
}

// adapt sets the size at the end of a round.
func (w *window) adapt(base time.Duration) {
	excess, allowed := w.took-base, max(base, leastDelay)
	switch {
	case !w.limited: // the window was not used
	case excess <= allowed/2:
		w.size = min(2*w.size, w.most)
	case excess <= allowed:
		w.size = min(w.size+w.size/8, w.most)
	default:
		w.size = max(w.size/2, w.size*int64(allowed)/int64(excess), w.least)
	}
	w.took, w.limited = 0, false
}
