package feed

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// MaxFeeds is the largest number of feeds in a set.
const MaxFeeds = 16

// Set has the feeds of one connection, each with its own number. It is not safe for concurrent use.
type Set struct{ feeds []*Feed }

// Empty reports whether there are no feeds.
func (s *Set) Empty() bool { return len(s.feeds) == 0 }

// Subscribe begins a feed, and returns the zxid after which it begins. now is the zxid that
// jute.FromNow stands for. The error is jute.ErrBadArguments or a *jute.CompactedError.
func (s *Set) Subscribe(h *History, r *jute.SubscribeRequest, now jute.Zxid) (jute.Zxid, error) {
	f, err := h.Subscribe(r, now)
	if err != nil {
		return 0, err
	}
	if len(s.feeds) == MaxFeeds || s.at(r.Feed) >= 0 {
		return 0, jute.ErrBadArguments
	}
	s.feeds = append(s.feeds, f)
	return f.Zxid(), nil
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
	s.feeds = slices.DeleteFunc(s.feeds, func(f *Feed) bool { return f.State() == Ended })
	return more
}
