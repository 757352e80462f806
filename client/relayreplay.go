package client

import (
	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
)

// xidReplay is the xid of the requests of a replay, whose replies have no place in the order of calls.
const xidReplay int32 = -17

// replayLocked appends the request for the feed of a replay, if there is one.
func (r *Relay) replayLocked(l *link, b []byte) []byte {
	q, begins, err := r.rules.Replay()
	switch {
	case err != nil:
		l.fail(err)
	case begins:
		return jute.EndFrame(q.Append(beginReplay(b, jute.OpSubscribe)), len(b))
	}
	return b
}

// beginReplay begins a request of a replay.
func beginReplay(b []byte, op jute.OpCode) []byte {
	out, _ := jute.BeginFrame(b)
	h := jute.RequestHeader{Xid: xidReplay, Type: op}
	return h.Append(out)
}

// replayReplied handles the reply to a request of a replay.
func (r *Relay) replayReplied(h *jute.ReplyHeader, d *jute.Decoder) error {
	r.c.s.mu.Lock()
	defer r.c.s.mu.Unlock()
	return r.rules.Subscribed(h.Err, d)
}

// fed handles an event of the replay's feed.
func (r *Relay) fed(l *link, e *feedEvent) error {
	s := r.c.s
	s.mu.Lock()
	credit, all, err := r.rules.Fed(&e.FeedEvent, e.bytes)
	if credit > 0 {
		q := jute.CreditRequest{Feed: resume.Feed, Credit: credit}
		s.out = jute.EndFrame(q.Append(beginReplay(s.out, jute.OpCredit)), len(s.out))
		l.flushLocked()
	}
	s.mu.Unlock()
	if err != nil || !all {
		return err
	}
	return r.replayed(l)
}

// replayed tells the client what it has missed, and lets its requests continue.
func (r *Relay) replayed(l *link) error {
	s := r.c.s
	s.mu.Lock()
	all := r.rules.Replayed()
	s.lastZxid = r.rules.Shown()
	s.mu.Unlock()
	for _, t := range all {
		l.tell(t.Zxid, t.WatcherEvent)
	}
	if err := s.settleOwed(l.server); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.rules.Resumed()
	s.out = jute.EndFrame(q.Append(beginReplay(s.out, jute.OpUnsubscribe)), len(s.out))
	s.releaseLocked(firstBatch)
	l.flushLocked()
	return nil
}

// hears handles an event that the server sends, and reports whether it is to be told now.
func (r *Relay) hears(zxid Zxid, ev jute.WatcherEvent) (tell bool) {
	r.c.s.mu.Lock()
	defer r.c.s.mu.Unlock()
	return r.rules.Hears(resume.Event{Zxid: zxid, WatcherEvent: ev})
}

// tellMissed tells the events that have waited for a reply, whose zxid the session has seen.
func (r *Relay) tellMissed(l *link) {
	r.c.s.mu.Lock()
	all := r.rules.Missed()
	r.c.s.mu.Unlock()
	for _, t := range all {
		l.tell(t.Zxid, t.WatcherEvent)
	}
}

// seenLocked returns the highest zxid that a reply has shown, or an event of a Relay.
func (s *session) seenLocked() Zxid {
	if s.relay != nil {
		return s.relay.rules.Seen()
	}
	return s.lastZxid
}
