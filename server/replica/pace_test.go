package replica

import (
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/limits"
)

// path is what entries pass until they are committed: batches of all that was proposed while the one
// before was under way.
type path struct {
	perBatch  time.Duration
	perSecond int64 // bytes
}

func (p path) takes(bytes int64) time.Duration {
	return p.perBatch + time.Duration(bytes*int64(time.Second)/p.perSecond)
}

// TestPace has a path that is always busy with long requests, as many as pace lets pass, and a short one with each
// batch. What is under way takes some times what a short request takes alone, whatever the path is, and not much less, as
// that would cost throughput. Later the path becomes ten times slower, and faster again.
func TestPace(t *testing.T) {
	const size = 16 << 10
	for _, tt := range []struct {
		name string
		path path
	}{
		{"disk", path{time.Millisecond, 100 << 20}},
		{"slow syncs", path{10 * time.Millisecond, 100 << 20}},
		{"fast disk", path{100 * time.Microsecond, 1 << 30}},
		{"far away", path{50 * time.Millisecond, 20 << 20}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPace(0, 0)
			now, zxid := time.Second, jute.Zxid(0)
			batches := func(over path) (took time.Duration) {
				for end := now + 3*baseAge; now < end; {
					zxid++ // a short one alone
					p.shortAt = now
					p.proposed(zxid, 100, now)
					now += over.takes(100)
					p.committed(zxid, now)
					p.shortAt = now
					for !p.full(now) {
						zxid++
						p.proposed(zxid, size, now)
					}
					p.long.limited = true
					took = over.takes(p.long.underWay)
					now += took
					p.committed(zxid, now)
					if p.long.underWay != 0 || p.marks.Len() != 0 {
						t.Fatalf("%d bytes are under way, of %d marks", p.long.underWay, p.marks.Len())
					}
				}
				return took
			}
			for _, over := range []path{tt.path, {10 * tt.path.perBatch, tt.path.perSecond}, tt.path} {
				least, most := over.perBatch*13/10, max(over.perBatch*9/2, over.perBatch+2*leastDelay)
				if took := batches(over); took < least || took > most {
					t.Errorf("batches take %v, want from %v to %v; the window is %d", took, least, most, p.long.size)
				}
			}
		})
	}
}

// TestPaceOfClosings has many sessions with one ephemeral each to be closed, on an applier that takes 5 µs for
// each, and short requests beside them. What is under way takes about twice what a short request takes
// alone, and where that is a millisecond or more the applier has work most of the time.
func TestPaceOfClosings(t *testing.T) {
	const perClosing = 5 * time.Microsecond
	for _, commit := range []time.Duration{300 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		p := newPace(0, 0)
		now, zxid := time.Second, jute.Zxid(0)
		var took time.Duration
		var closed int
		for range 200 {
			zxid++
			p.proposed(zxid, 100, now)
			n := 0
			for ; !p.closings.full(); n++ {
				zxid++
				p.proposed(zxid, 100, now)
				p.closings.proposed(zxid, 2*workBytes, now)
			}
			if !p.waits(&evaluate.Request{Op: jute.OpCloseSession}, now) || p.opened(now) {
				t.Fatal("a closing does not wait")
			}
			p.committed(zxid, now+commit)
			if !p.closings.full() {
				t.Fatal("closings count until they are committed only")
			}
			took = commit + time.Duration(n)*perClosing
			now, closed = now+took, n
			p.applied(zxid, now)
			if p.closings.underWay != 0 || p.closings.marks.Len() != 0 || !p.opened(now) || p.opened(now) {
				t.Fatalf("%d is under way, of %d marks", p.closings.underWay, p.closings.marks.Len())
			}
		}
		excess, allowed := took-commit, max(commit, leastDelay)
		if most := allowed * 3 / 2; excess > most && closed > leastClosings/(2*workBytes) {
			t.Errorf("commits take %v: %d closings take %v more, want %v at most", commit, closed, excess, most)
		}
		if least := min(allowed/3, mostWindow/(2*workBytes)*perClosing*9/10); excess < least {
			t.Errorf("commits take %v: %d closings take only %v more, want %v", commit, closed, excess, least)
		}
	}
}

// Without short requests, nothing but the limits of the log bounds long ones.
func TestPaceWithoutShort(t *testing.T) {
	p := newPace(0, 0)
	for i := range 100 {
		p.proposed(jute.Zxid(i+1), 1<<20, time.Hour)
	}
	if p.full(time.Hour) {
		t.Error("a long request has to wait, and no short one came")
	}
	p.shortAt = time.Hour
	if !p.full(time.Hour) || p.full(time.Hour+shortAge) {
		t.Error("a long request has to wait just while short ones come")
	}
}

// TestPaceOfShortRequests has subjects that always have more short requests: what is under way takes about twice what one
// takes alone. There is no bound for one subject, nor a second after the last request of another one.
func TestPaceOfShortRequests(t *testing.T) {
	a, b := limits.Subject{ID: jute.ID{Scheme: "sasl", ID: "a"}}, limits.Subject{ID: jute.ID{Scheme: "sasl", ID: "b"}}
	const size = 150
	for _, over := range []path{{time.Millisecond, 40 << 20}, {10 * time.Millisecond, 40 << 20}, {100 * time.Microsecond, 400 << 20}, {50 * time.Millisecond, 8 << 20}} {
		p := newPace(0, 0)
		now, zxid := time.Second, jute.Zxid(0)
		var took time.Duration
		for end := now + 3*baseAge; now < end; {
			zxid++ // one alone
			p.came(a, now)
			p.proposed(zxid, size, now)
			now += over.takes(size + workBytes)
			p.committed(zxid, now)
			p.came(b, now)
			for !p.holds(now) {
				zxid++
				p.proposed(zxid, size, now)
			}
			took = over.takes(p.short.underWay)
			now += took
			p.committed(zxid, now)
		}
		if least, most := over.perBatch*13/10, max(over.perBatch*9/2, over.perBatch+2*leastDelay); took < least || took > most {
			t.Errorf("over %v, what is under way takes %v, want from %v to %v", over, took, least, most)
		}
		for range 100_000 {
			zxid++
			p.proposed(zxid, size, now)
		}
		if !p.holds(now) {
			t.Error("100,000 requests of two subjects are under way")
		}
		now += shortAge
		p.came(b, now)
		if p.holds(now) {
			t.Error("the requests of one subject are bounded")
		}
		if p.mixedAt = now; !p.holds(now) {
			t.Error("they are not while others wait")
		}
	}
}
