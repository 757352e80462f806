package feed

import (
	"errors"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Set has the feeds of one connection, each with its own number. It is not safe for concurrent use.
type Set struct {
	feeds  []*Feed
	places *Places // nil before the first feed
	closed bool
}

// Empty reports whether there are no feeds.
func (s *Set) Empty() bool { return len(s.feeds) == 0 }

// Subscribe begins a feed, and returns the zxid after which it begins. now is the zxid that
// jute.FromNow means. groups are what the client has in common with others: see package fair. The
// error is jute.ErrBadArguments, jute.ErrQuotaExceeded if there is no place, jute.ErrConnectionLoss after
// Close, or a *jute.CompactedError.
func (s *Set) Subscribe(h *History, p *Places, groups []string, r *jute.SubscribeRequest, now jute.Zxid) (jute.Zxid, error) {
	s.removeEnded() // the client may know already that they have
	f, err := h.Subscribe(r, now)
	_, compacted := errors.AsType[*jute.CompactedError](err)
	switch {
	case compacted:
		p.Compacted()
		return 0, err
	case err != nil:
		return 0, err
	case s.at(r.Feed) >= 0:
		return 0, jute.ErrBadArguments
	case s.closed:
		return 0, jute.ErrConnectionLoss
	}
	if f.place = p.enterSet(s, groups, f); f.place == nil {
		return 0, jute.ErrQuotaExceeded
	}
	s.feeds, s.places = append(s.feeds, f), p
	return f.Zxid(), nil
}

// Close ends the feeds, and there will be no others.
func (s *Set) Close() {
	s.closed = true
	for _, f := range s.feeds {
		s.places.Leave(f.place)
	}
	s.feeds = nil
}

// Grant adds to the credit of a feed. The error is jute.ErrNoWatcher or jute.ErrBadArguments.
func (s *Set) Grant(r *jute.CreditRequest) error {
	i := s.at(r.Feed)
	if i < 0 {
		return jute.ErrNoWatcher
	}
	return s.feeds[i].Grant(r.Credit)
}

// Unsubscribe ends a feed. The error is jute.ErrNoWatcher.
func (s *Set) Unsubscribe(r *jute.UnsubscribeRequest) error {
	i := s.at(r.Feed)
	if i < 0 {
		return jute.ErrNoWatcher
	}
	if !placeKept.Planted() {
		s.places.Leave(s.feeds[i].place)
	}
	s.feeds = slices.Delete(s.feeds, i, i+1)
	return nil
}

// at returns the place of a feed, or -1.
func (s *Set) at(id int32) int {
	return slices.IndexFunc(s.feeds, func(f *Feed) bool { return f.ID() == id })
}

// CatchUp calls send for the feeds that have once sent everything, and have had credit since, until they
// have sent everything again, or send returns false. It must precede everything else that is sent and could
// show a change which these feeds lack. The others are left to Next: what it costs to read from far back in
// the history must not delay replies.
func (s *Set) CatchUp(send func(*Feed) bool) {
	for _, f := range s.feeds {
		for more := f.level; more; more = f.State() == Behind {
			if !send(f) {
				return
			}
		}
	}
}

// Next calls send once for each feed, unless it returns false, and removes the feeds that have ended.
// It reports whether there may be more to send at once.
func (s *Set) Next(send func(*Feed) bool) (more bool) {
	for _, f := range s.feeds {
		if !send(f) {
			return false
		}
		more = more || f.State() == Behind
	}
	s.removeEnded()
	return more
}

func (s *Set) removeEnded() {
	s.feeds = slices.DeleteFunc(s.feeds, func(f *Feed) bool {
		if f.State() != Ended {
			return false
		}
		if !f.displaced.Load() {
			s.places.Compacted()
		}
		s.places.Leave(f.place)
		return true
	})
}

// All returns the feeds. They are valid until the next call of another method.
func (s *Set) All() []*Feed { return s.feeds }
