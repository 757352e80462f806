package resume

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Feed is the number of the feed of a replay, and Window its credit: how many bytes of changes may be on their way, or wait to be read.
const (
	Feed   = 1
	Window = 1 << 20
)

// feedKinds are the changes that are events.
var feedKinds = jute.ChangeKindsOf(jute.ChangeCreated, jute.ChangeDeleted, jute.ChangeData, jute.ChangeChildren)

// maxReplayed is how many events may have been missed.
const maxReplayed = 100_000

// replay is a feed that is read on a new connection.
type replay struct {
	begun  bool      // the server has the feed
	events []Event   // of the changes, in their order
	live   []Event   // that the server has sent meanwhile
	set    jute.Zxid // the server has set the watches as of it
	used   int       // bytes of the feed for which the server has got no new credit
}

// ErrNoReplay is why the session ends for its client whose persistent watches have missed events.
var ErrNoReplay = errors.New("the server can't tell what persistent watches have missed")

// noReplay is called when a replay is not possible. The session then ends for its client.
func (s *Session) noReplay(why string) error {
	s.Bound = true
	return fmt.Errorf("%w: %s", ErrNoReplay, why)
}

// RestoreWatches returns the requests that set the client's watches again: on a new connection or, alone, for those that the server does not have. chunk is roughly
// the most bytes of the paths of one.
func (s *Session) RestoreWatches(chunk int, alone bool) []jute.SetWatchesRequest {
	t := &s.Watches
	if s.local && !alone { // the memory has them
		return nil
	}
	since := s.shown
	if t.since != 0 {
		since = min(since, t.since)
	}
	if restoredLate.Planted() {
		since = s.Seen() + 1
	}
	paths := t.Paths()
	if restoredNone.Planted() {
		paths[Data], paths[Exist], paths[Children] = nil, nil, nil
	}
	all := Restore(since, paths, chunk)
	switch {
	case len(all) == 0 && !alone:
		t.since = 0
	case len(all) > 0 && alone && t.since == 0:
		t.since = s.shown
	}
	return all
}

// Replay begins a replay on a new connection if there are persistent watches, and returns the request for its feed.
func (s *Session) Replay() (q jute.SubscribeRequest, begins bool, err error) {
	path, any := s.Watches.root()
	if !any {
		return q, false, nil
	}
	if !s.feeds {
		s.Bound = true
		return q, false, ErrNoReplay
	}
	after := s.shown
	if s.last > after { // a part of its events may be missing
		after = s.last - 1
		if tailLost.Planted() {
			after = s.last
		}
	}
	s.replay = &replay{}
	return jute.SubscribeRequest{Path: path, Feed: Feed, Recursive: true, After: after, Credit: Window, Kinds: feedKinds}, true, nil
}

// Replaying reports whether there is a replay.
func (s *Session) Replaying() bool { return s.replay != nil }

// Holds reports whether the client's requests wait for a replay.
func (s *Session) Holds() bool {
	replaying := s.replay != nil
	return replaying && !notHeld.Planted()
}

// Settles reports whether the outcomes of requests of earlier connections can be told, when the watches are set again.
func (s *Session) Settles() bool {
	free := s.replay == nil
	return free || outcomeFirst.Planted()
}

// Subscribed handles the reply to a request about the feed of a replay.
func (s *Session) Subscribed(code jute.Code, d *jute.Decoder) error {
	p := s.replay
	if p == nil || p.begun { // to a credit, or an unsubscribe
		return nil
	}
	p.begun = true
	if code != 0 {
		return s.noReplay(code.Error())
	}
	var a jute.SubscribeResponse
	if a.Decode(d); d.Err() != nil {
		return d.Err()
	}
	if a.Compacted {
		return s.noReplay(fmt.Sprintf("it has the changes after %v", a.Zxid))
	}
	return nil
}

// Fed handles an event of the feed of a replay, which has so many bytes. It returns the credit that the server is to get, and whether the feed
// has told all: then Replayed follows.
func (s *Session) Fed(e *jute.FeedEvent, bytes int) (credit int32, all bool, err error) {
	p := s.replay
	if p == nil {
		return 0, false, nil
	}
	if e.Compacted {
		return 0, false, s.noReplay(fmt.Sprintf("it has the changes after %v", e.Zxid))
	}
	for i := range e.Changes {
		if hidden.Planted() && e.Changes[i].Kind == jute.ChangeChildren && (i == 0 || e.Changes[i-1].Index != e.Changes[i].Index) {
			continue
		}
		p.events = s.Watches.appendMissed(p.events, &e.Changes[i])
	}
	if p.used += bytes; p.used >= Window/2 && !e.Level {
		credit, p.used = int32(p.used), 0
	}
	if len(p.events) > maxReplayed {
		return 0, false, s.noReplay(fmt.Sprintf("they are more than %d events", maxReplayed))
	}
	level := e.Level
	level = level || early.Planted()
	return credit, level, nil
}

// Replayed returns the events that the client is to be told by a replay. Then outcomes of its requests can be told, and Resumed follows.
func (s *Session) Replayed() []Event {
	all := s.replayed()
	s.shown, s.has = max(s.shown, s.replay.set), max(s.has, s.replay.set)
	return all
}

// Resumed ends a replay. The server is to end the feed.
func (s *Session) Resumed() jute.UnsubscribeRequest {
	s.replay = nil
	return jute.UnsubscribeRequest{Feed: Feed}
}

// replayed returns the events of the feed, without those that the client has, and with those that the server has sent meanwhile. An event of a
// one-shot watch that has no zxid is what a reconnected client gets: it is left out where the client gets the event itself.
func (s *Session) replayed() []Event {
	p := s.replay
	all := p.events
	for _, t := range s.tail {
		if tailTwice.Planted() {
			break
		}
		same := func(o Event) bool { return o.Zxid == t.Zxid && o.Type == t.Type && o.Path == t.Path }
		if i := slices.IndexFunc(all, same); i >= 0 {
			all = slices.Delete(all, i, i+1)
		}
	}
	told := map[Event]int{}
	s.again = told
	fired := map[jute.WatcherEvent]bool{}
	for _, t := range all {
		told[t]++
		fired[jute.WatcherEvent{Type: t.Type, Path: t.Path}] = true
	}
	var first []Event
	for _, t := range p.live {
		any := func(types ...jute.EventType) bool {
			return slices.ContainsFunc(types, func(typ jute.EventType) bool { return fired[jute.WatcherEvent{Type: typ, Path: t.Path}] })
		}
		again := told[t] > 0
		again = again && !liveTwice.Planted()
		switch {
		case t.Zxid >= 0 && again:
			told[t]--
		case t.Zxid >= 0:
			all = append(all, t)
		case oneShotTwice.Planted():
			first = append(first, t)
		case t.Type == jute.EventChildrenChanged && any(jute.EventChildrenChanged, jute.EventDeleted):
		case t.Type == jute.EventDeleted && any(jute.EventDeleted):
		case (t.Type == jute.EventCreated || t.Type == jute.EventDataChanged) && any(jute.EventCreated, jute.EventDataChanged, jute.EventDeleted):
		default:
			first = append(first, t)
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(a.Zxid, b.Zxid) })
	return append(first, all...)
}

// Hears handles an event that the server sends. It reports whether it is to be told: not if it has to wait for a replay or for a reply, or was told by a replay,
// as a server may feed a change before it sends the event.
func (s *Session) Hears(t Event) (tell bool) {
	if s.replay != nil {
		s.replay.live = append(s.replay.live, t)
		return false
	}
	again := s.again[t] > 0
	if again {
		s.again[t]--
	}
	again = again && !fedFirst.Planted()
	if again {
		return false
	}
	// Only the reply to a setWatches says which state the events show that one-shot watches have missed. If they were told before it and
	// the connection were lost, the next server might be behind them.
	waits := s.exact && t.Zxid < 0 || len(s.missed) > 0
	waits = waits && !missedEarly.Planted()
	if waits {
		s.missed = append(s.missed, t)
	}
	return !waits
}

// Restored is called when the server has set all watches that it was asked to, as of a zxid.
func (s *Session) Restored(zxid jute.Zxid) {
	s.Watches.since = 0
	if s.replay != nil { // the client gets nothing before its end
		s.replay.set = zxid
		return
	}
	if missedUnseen.Planted() {
		return
	}
	s.shown, s.has = max(s.shown, zxid), max(s.has, zxid)
}

// Missed returns the events that have waited for a reply, which is there. They are to be told.
func (s *Session) Missed() []Event {
	all := s.missed
	s.missed = nil
	return all
}

// Told notes that the client has an event of the server.
func (s *Session) Told(t Event) {
	s.has = max(s.has, t.Zxid)
	s.Learnt(t)
}

// Learnt notes that the client has an event, of the server or of what else its program knows.
func (s *Session) Learnt(t Event) {
	ev := t.WatcherEvent
	if ev.Path == "" {
		ev.Path = "/"
	}
	s.Watches.fire(&ev)
	if t.Zxid > s.last {
		s.last, s.tail = t.Zxid, s.tail[:0]
	}
	if t.Zxid == s.last {
		s.tail = append(s.tail, t)
	}
}
