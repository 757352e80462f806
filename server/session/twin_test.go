package session

import (
	"cmp"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// twin is the tracker as specified: a list of deadlines. It keeps them in the caller's
// time, and moves each one when they are postponed.
type twin struct {
	tick, delay int64
	sessions    map[jute.SessionID]*twinSession
}

type twinSession struct {
	deadline int64
	timeout  int32
	resuming int32
	closing  bool
	owner    uint64
}

func (tw *twin) deadline(now int64, timeout int32) int64 {
	return ((now-tw.delay+int64(timeout))/tw.tick+1)*tw.tick + tw.delay
}

func (tw *twin) add(id jute.SessionID, timeout int32, now int64) bool {
	if tw.sessions[id] != nil {
		return false
	}
	tw.sessions[id] = &twinSession{deadline: tw.deadline(now, timeout), timeout: timeout}
	return true
}

func (tw *twin) touch(id jute.SessionID, now int64, timeout int32) bool {
	s := tw.sessions[id]
	if s == nil || s.closing {
		return false
	}
	s.deadline = max(s.deadline, tw.deadline(now, timeout))
	return true
}

func (tw *twin) renew(id jute.SessionID, timeout int32, now int64) bool {
	s := tw.sessions[id]
	if s == nil || s.closing {
		return false
	}
	s.deadline, s.timeout, s.resuming = tw.deadline(now, timeout), timeout, 0
	return true
}

func (tw *twin) resume(id jute.SessionID, timeout int32, origin uint64, now int64) (uint64, bool) {
	s := tw.sessions[id]
	if s == nil || s.closing {
		return 0, false
	}
	before := s.owner
	s.resuming, s.owner = timeout, origin
	s.deadline = max(s.deadline, tw.deadline(now, max(s.timeout, s.resuming)))
	return before, true
}

func (tw *twin) setTimeout(id jute.SessionID, timeout int32, origin uint64, now int64) {
	s := tw.sessions[id]
	if s == nil {
		return
	}
	heard := s.deadline - int64(max(s.timeout, s.resuming)) - 1
	s.timeout = timeout
	if s.owner == origin {
		s.resuming = 0
		s.deadline = tw.deadline(max(now, heard), timeout)
	}
}

func (tw *twin) markClosing(id jute.SessionID) bool {
	s := tw.sessions[id]
	if s == nil || s.closing {
		return false
	}
	s.closing = true
	return true
}

func (tw *twin) remove(id jute.SessionID) bool {
	there := tw.sessions[id] != nil
	delete(tw.sessions, id)
	return there
}

func (tw *twin) postpone(gap int64) {
	tw.delay += gap
	for _, s := range tw.sessions {
		s.deadline += gap
	}
}

func (tw *twin) reset(now int64) {
	for _, s := range tw.sessions {
		*s = twinSession{deadline: tw.deadline(now, s.timeout), timeout: s.timeout}
	}
}

// open returns the sessions that are not closing, by deadline and id.
func (tw *twin) open() []jute.SessionID {
	ids := slices.DeleteFunc(slices.Collect(maps.Keys(tw.sessions)), func(id jute.SessionID) bool {
		return tw.sessions[id].closing
	})
	slices.SortFunc(ids, func(a, b jute.SessionID) int {
		return cmp.Or(cmp.Compare(tw.sessions[a].deadline, tw.sessions[b].deadline), cmp.Compare(a, b))
	})
	return ids
}

func (tw *twin) expire(now int64) (expired []jute.SessionID) {
	for _, id := range tw.open() {
		if tw.sessions[id].deadline <= now {
			tw.sessions[id].closing = true
			expired = append(expired, id)
		}
	}
	return expired
}

func (tw *twin) own(id jute.SessionID, origin uint64, take bool) error {
	s := tw.sessions[id]
	switch {
	case s == nil || s.closing:
		return jute.ErrSessionExpired
	case take || s.owner == 0:
		s.owner = origin
	case s.owner != origin:
		return jute.ErrSessionMoved
	}
	return nil
}

// TestTwin makes random calls to a tracker and to the twin, and compares everything
// observable.
func TestTwin(t *testing.T) {
	for world, tick := range []int64{1, 7, 2000} {
		seed := seeds.First(t)
		rng := rand.New(rand.NewPCG(seed, uint64(world)))
		tracker := NewTracker(tick)
		tw := &twin{tick: tick, sessions: map[jute.SessionID]*twinSession{}}
		now := int64(0)
		for step := range 5000 {
			now += rng.Int64N(tick + 1)
			if !stepTwin(t, rng, tracker, tw, now) || !compare(t, tracker, tw) {
				t.Fatalf("tick %d, step %d: replay with -seed=%d", tick, step, seed)
			}
		}
	}
}

// stepTwin makes one call and reports whether both gave the same result.
func stepTwin(t *testing.T, rng *rand.Rand, tracker *Tracker, tw *twin, now int64) bool {
	id, origin := jute.SessionID(rng.IntN(30)-15), uint64(1+rng.IntN(3))
	timeout := int32(1 + rng.Int64N(10*tw.tick))
	late := max(now-rng.Int64N(3*tw.tick), tw.delay) // an old touch
	same := func(name string, got, want any) bool {
		if got != want {
			t.Errorf("%s(%v) at %d = %v, want %v", name, id, now, got, want)
		}
		return got == want
	}
	switch n := rng.IntN(100); {
	case n < 25:
		_, ok := tracker.Add(id, timeout, now)
		return same("Add", ok, tw.add(id, timeout, now))
	case n < 27:
		before, ok := tracker.Resume(id, timeout, origin, late)
		wantBefore, want := tw.resume(id, timeout, origin, late)
		return same("Resume", ok, want) && same("owner before Resume", before, wantBefore)
	case n < 30:
		tracker.SetTimeout(id, timeout, origin, now)
		tw.setTimeout(id, timeout, origin, now)
	case n < 50:
		return same("Touch", tracker.Touch(id, late, timeout), tw.touch(id, late, timeout))
	case n < 60:
		return same("Renew", tracker.Renew(id, timeout, now), tw.renew(id, timeout, now))
	case n < 64:
		return same("MarkClosing", tracker.MarkClosing(id), tw.markClosing(id))
	case n < 72:
		return same("Remove", tracker.Remove(id), tw.remove(id))
	case n < 77:
		return same("SetOwner", tracker.SetOwner(id, origin), tw.own(id, origin, true))
	case n < 82:
		return same("CheckOwner", tracker.CheckOwner(id, origin), tw.own(id, origin, false))
	case n < 84:
		gap := min(rng.Int64N(2*tw.tick)+1, now-tw.delay)
		tracker.Postpone(gap)
		tw.postpone(gap)
	case n < 85:
		tracker.Reset(now, nil)
		tw.reset(now)
	default:
		got, want := tracker.Expire(now, nil), tw.expire(now)
		if !slices.Equal(got, want) {
			t.Errorf("Expire(%d) = %v, want %v", now, got, want)
			return false
		}
	}
	return true
}

func compare(t *testing.T, tracker *Tracker, tw *twin) bool {
	var ids []jute.SessionID
	for _, b := range tracker.Buckets() {
		for _, id := range b.Sessions {
			ids = append(ids, id)
			if s := tw.sessions[id]; s == nil || s.closing || s.deadline != b.At {
				t.Errorf("%v is in the bucket of %d; it is %+v", id, b.At, s)
			} else if ms := tracker.Get(id).TimeoutMs(); ms != max(s.timeout, s.resuming) {
				t.Errorf("%v has a timeout of %d ms; it is %+v", id, ms, s)
			}
		}
	}
	if want := tw.open(); !slices.Equal(ids, want) {
		t.Errorf("Buckets has %v, want %v", ids, want)
	}
	if tracker.Len() != len(tw.sessions) {
		t.Errorf("Len = %d, want %d", tracker.Len(), len(tw.sessions))
	}
	if err := checkBuckets(tracker); err != nil {
		t.Error(err)
	}
	return !t.Failed()
}

// checkBuckets checks that each session that is not closing is in the bucket that it
// names and in no other, and that the bucket is not after its deadline.
func checkBuckets(tracker *Tracker) error {
	placed := 0
	for at, bucket := range tracker.buckets {
		for i, s := range bucket {
			placed++
			if s.bucket != at || int(s.slot) != i || s.deadline.Load() < at || s.Closing() {
				return errors.New("a session is in a bucket where it does not belong: " + s.id.String())
			}
		}
		if len(bucket) == 0 {
			return errors.New("a bucket is empty")
		}
	}
	for _, s := range tracker.sessions {
		if !s.Closing() {
			placed--
		}
	}
	if placed != 0 {
		return errors.New("the buckets don't hold the sessions that are not closing")
	}
	return nil
}
