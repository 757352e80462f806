package session

import (
	"cmp"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Bucket is a set of sessions that expire together. The four-letter word dump shows them.
type Bucket struct {
	At       int64 // when they expire if not touched again; ms of the tracker's clock
	Sessions []jute.SessionID
}

// Len returns the number of sessions, including those that are closing.
func (t *Tracker) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.sessions)
}

// Buckets returns the sessions by deadline, the next to expire first, and by id within a
// deadline. It leaves out closing sessions. A bucket has at least one session.
func (t *Tracker) Buckets() []Bucket {
	t.mu.RLock()
	delay := t.delay.Load()
	all := make([]due, 0, len(t.sessions))
	for _, s := range t.sessions {
		if at := s.deadline.Load(); at != closing {
			all = append(all, due{at + delay, s.id})
		}
	}
	t.mu.RUnlock()
	slices.SortFunc(all, due.compare)
	var buckets []Bucket
	for _, d := range all {
		if n := len(buckets); n == 0 || buckets[n-1].At != d.at {
			buckets = append(buckets, Bucket{At: d.at})
		}
		last := &buckets[len(buckets)-1]
		last.Sessions = append(last.Sessions, d.id)
	}
	return buckets
}

// due is a session and the time when it expires.
type due struct {
	at int64
	id jute.SessionID
}

// compare orders by time, then by id.
func (d due) compare(other due) int {
	return cmp.Or(cmp.Compare(d.at, other.at), cmp.Compare(d.id, other.id))
}

// Expiring returns the number of sessions that were not heard of for two thirds of their
// timeouts. Clients send something at least after half of it.
func (t *Tracker) Expiring(now int64) (n int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	delay := t.delay.Load()
	for _, s := range t.sessions {
		if at := s.deadline.Load(); at != closing && at+delay-now < int64(s.timeout.Load())/3 {
			n++
		}
	}
	return n
}
