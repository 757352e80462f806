package session

import (
	"cmp"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Bucket is the sessions that expire together. The four-letter word dump shows
// them.
type Bucket struct {
	At       int64 // when they expire if not heard of again; ms of the tracker's clock
	Sessions []jute.SessionID
}

// Len returns the number of sessions, those that are closing included.
func (t *Tracker) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.sessions)
}

// Buckets returns the sessions by deadline, the next to expire first, and by id
// where they share one. Closing sessions are in none. A bucket holds a session
// at least.
func (t *Tracker) Buckets() []Bucket {
	type item struct {
		at int64
		id jute.SessionID
	}
	t.mu.RLock()
	delay := t.delay.Load()
	items := make([]item, 0, len(t.sessions))
	for _, s := range t.sessions {
		if at := s.deadline.Load(); at != closing {
			items = append(items, item{at + delay, s.id})
		}
	}
	t.mu.RUnlock()
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
	})
	var buckets []Bucket
	for _, it := range items {
		if n := len(buckets); n == 0 || buckets[n-1].At != it.at {
			buckets = append(buckets, Bucket{At: it.at})
		}
		last := &buckets[len(buckets)-1]
		last.Sessions = append(last.Sessions, it.id)
	}
	return buckets
}
