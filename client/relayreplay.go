package client

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// A persistent watch has its events on one connection only: nobody tells what it misses between two. So on each
// further connection a Relay first sets its client's watches again, and then reads the changes since the last one
// from a feed. The client gets the events that these changes are for its watches, and then everything else.

// xidReplay is the xid of the requests of a replay, whose replies have no place in the order of calls.
const xidReplay int32 = -17

// replayFeed is the number of the feed of a replay.
const replayFeed = 1

// replayKinds are the changes that are events.
var replayKinds = jute.ChangeKindsOf(jute.ChangeCreated, jute.ChangeDeleted, jute.ChangeData, jute.ChangeChildren)

// maxReplayed is how many events may have been missed.
const maxReplayed = 100_000

// toldEvent is an event with the zxid of its transaction, or -1 if the server does not say it.
type toldEvent struct {
	zxid Zxid
	ev   jute.WatcherEvent
}

func (a *toldEvent) same(b toldEvent) bool {
	return a.zxid == b.zxid && a.ev.Type == b.ev.Type && a.ev.Path == b.ev.Path
}

// replay is a feed that is read on a new connection.
type replay struct {
	begun  bool        // the server has the feed
	events []toldEvent // of the changes, in their order
	live   []toldEvent // that the server has sent meanwhile
	set    Zxid        // the server has set the watches as of it
	used   int         // bytes of the feed for which the server has got no new credit
}

// replayLocked begins a replay if there are persistent watches. The requests to set them again are in b.
func (r *Relay) replayLocked(l *link, b []byte) []byte {
	t := &r.c.s.watches
	path, any := t.persistentRoot()
	if !any {
		return b
	}
	if l.features&jute.FeatureFeed == 0 {
		r.bound = true
		l.fail(errNoReplay)
		return b
	}
	after := r.c.s.lastZxid
	if r.last > after { // a part of its events may be missing
		after = r.last - 1
		if relayTailLost.Planted() {
			after = r.last
		}
	}
	r.replay = &replay{}
	q := jute.SubscribeRequest{
		Path: path, Feed: replayFeed, Recursive: true, After: after, Credit: feedWindow,
		Kinds: replayKinds,
	}
	return jute.EndFrame(q.Append(beginReplay(b, jute.OpSubscribe)), len(b))
}

// beginReplay begins a request of a replay.
func beginReplay(b []byte, op jute.OpCode) []byte {
	out, _ := jute.BeginFrame(b)
	h := jute.RequestHeader{Xid: xidReplay, Type: op}
	return h.Append(out)
}

// errNoReplay ends the connection of a client whose persistent watches have missed events.
var errNoReplay = errors.New("the server can't tell what persistent watches have missed")

// noReplay is called when a replay is not possible. The session then ends for its client.
func (r *Relay) noReplay(why string) error {
	r.c.s.mu.Lock()
	defer r.c.s.mu.Unlock()
	r.bound = true
	return fmt.Errorf("%w: %s", errNoReplay, why)
}

// replayReplied handles the reply to a request of a replay.
func (r *Relay) replayReplied(h *jute.ReplyHeader, d *jute.Decoder) error {
	p := r.replay
	if p == nil || p.begun { // to a credit, or an unsubscribe
		return nil
	}
	p.begun = true
	if h.Err != 0 {
		return r.noReplay(h.Err.Error())
	}
	var a jute.SubscribeResponse
	if a.Decode(d); d.Err() != nil {
		return d.Err()
	}
	if a.Compacted {
		return r.noReplay(fmt.Sprintf("it has the changes after %v", a.Zxid))
	}
	return nil
}

// fed handles an event of the replay's feed.
func (r *Relay) fed(l *link, e *feedEvent) error {
	s, p := r.c.s, r.replay
	if p == nil {
		return nil
	}
	if e.Compacted {
		return r.noReplay(fmt.Sprintf("it has the changes after %v", e.Zxid))
	}
	s.mu.Lock()
	for i := range e.Changes {
		if relayHidden.Planted() && e.Changes[i].Kind == jute.ChangeChildren && (i == 0 || e.Changes[i-1].Index != e.Changes[i].Index) {
			continue
		}
		p.events = s.watches.appendMissed(p.events, &e.Changes[i])
	}
	if p.used += e.bytes; p.used >= feedWindow/2 && !e.Level {
		q := jute.CreditRequest{Feed: replayFeed, Credit: int32(p.used)}
		s.out = jute.EndFrame(q.Append(beginReplay(s.out, jute.OpCredit)), len(s.out))
		p.used = 0
		l.wakeWriter()
	}
	s.mu.Unlock()
	level := e.Level
	level = level || relayEarly.Planted()
	switch {
	case len(p.events) > maxReplayed:
		return r.noReplay(fmt.Sprintf("they are more than %d events", maxReplayed))
	case level:
		return r.replayed(l)
	}
	return nil
}

// replayed tells the client what it has missed, and lets its requests continue.
func (r *Relay) replayed(l *link) error {
	s := r.c.s
	s.mu.Lock()
	all := r.missedLocked()
	s.lastZxid, l.has = max(s.lastZxid, r.replay.set), max(l.has, r.replay.set)
	s.mu.Unlock()
	for _, t := range all {
		l.tell(t.zxid, t.ev)
	}
	if err := s.settleOwed(l.server); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.replay = nil
	q := jute.UnsubscribeRequest{Feed: replayFeed}
	s.out = jute.EndFrame(q.Append(beginReplay(s.out, jute.OpUnsubscribe)), len(s.out))
	s.releaseLocked(firstBatch)
	l.wakeWriter()
	return nil
}

// missedLocked returns the events of the feed, without those that the client has, and with those that the server has
// sent meanwhile. An event of a one-shot watch that has no zxid is what a reconnected client gets: it is left out where
// the client gets the event itself.
func (r *Relay) missedLocked() []toldEvent {
	p := r.replay
	all := p.events
	for _, t := range r.ofLast {
		if relayTailTwice.Planted() {
			break
		}
		if i := slices.IndexFunc(all, t.same); i >= 0 {
			all = slices.Delete(all, i, i+1)
		}
	}
	replayed := map[toldEvent]int{}
	r.again = replayed
	fired := map[jute.WatcherEvent]bool{}
	for _, t := range all {
		replayed[t]++
		fired[jute.WatcherEvent{Type: t.ev.Type, Path: t.ev.Path}] = true
	}
	var first []toldEvent
	for _, t := range p.live {
		told := func(types ...jute.EventType) bool {
			return slices.ContainsFunc(types, func(typ jute.EventType) bool { return fired[jute.WatcherEvent{Type: typ, Path: t.ev.Path}] })
		}
		again := replayed[t] > 0
		again = again && !relayLiveTwice.Planted()
		switch {
		case t.zxid >= 0 && again:
			replayed[t]--
		case t.zxid >= 0:
			all = append(all, t)
		case relayOneShotTwice.Planted():
			first = append(first, t)
		case t.ev.Type == jute.EventChildrenChanged && told(jute.EventChildrenChanged, jute.EventDeleted):
		case t.ev.Type == jute.EventDeleted && told(jute.EventDeleted):
		case (t.ev.Type == jute.EventCreated || t.ev.Type == jute.EventDataChanged) && told(jute.EventCreated, jute.EventDataChanged, jute.EventDeleted):
		default:
			first = append(first, t)
		}
	}
	slices.SortStableFunc(all, func(a, b toldEvent) int { return cmp.Compare(a.zxid, b.zxid) })
	return append(first, all...)
}

// keeps reports whether an event of the server has to wait for a replay or for a reply, or was told by a replay: a server may feed a change
// before it sends the event.
func (r *Relay) keeps(l *link, t toldEvent) bool {
	if r.replay != nil {
		r.replay.live = append(r.replay.live, t)
		return true
	}
	again := r.again[t] > 0
	if again {
		r.again[t]--
	}
	again = again && !relayFedFirst.Planted()
	if again {
		return true
	}
	// Only the reply to a setWatches says which state the events show that one-shot watches have missed. If they were told before it and
	// the connection were lost, the next server might be behind them.
	waits := l.features&jute.FeatureExactlyOnce != 0 && t.zxid < 0 || len(r.missed) > 0
	waits = waits && !relayMemoryMissedEarly.Planted()
	if waits {
		r.missed = append(r.missed, t)
	}
	return waits
}

// setLocked notes as of which zxid the server of a connection has set the watches.
func (r *Relay) setLocked(l *link, zxid Zxid) {
	s := r.c.s
	if r.replay != nil { // the client gets nothing before its end
		r.replay.set = zxid
		return
	}
	if relayMemoryMissedUnseen.Planted() {
		return
	}
	s.lastZxid, l.has = max(s.lastZxid, zxid), max(l.has, zxid)
}

// tellMissed tells the events that have waited for a reply, whose zxid the session has seen.
func (r *Relay) tellMissed(l *link) {
	all := r.missed
	r.missed = nil
	for _, t := range all {
		l.tell(t.zxid, t.ev)
	}
}

// toldLocked notes that the client has an event.
func (r *Relay) toldLocked(t toldEvent) {
	if t.zxid > r.last {
		r.last, r.ofLast = t.zxid, r.ofLast[:0]
	}
	if t.zxid == r.last && t.zxid > r.c.s.lastZxid {
		r.ofLast = append(r.ofLast, t)
	}
}

// persistentRoot returns the node that all persistent watches are on or below. any reports whether there are any.
func (t *watches) persistentRoot() (root string, any bool) {
	for _, k := range []watchKind{watchPersistent, watchRecursive} {
		for path := range t.byPath[k] {
			switch {
			case !t.armed(k, path):
			case !any:
				root, any = path, true
			default:
				for !below(path, root) {
					root = jute.Parent(root)
				}
			}
		}
	}
	if !strings.HasPrefix(root, "/") {
		root = "/"
	}
	return root, any
}

// below reports whether a node is the other one, or below it.
func below(path, of string) bool {
	return of == "/" || of == "" || path == of || strings.HasPrefix(path, of) && path[len(of)] == '/'
}

// eventsOf are the types of the events that changes are.
var eventsOf = map[jute.ChangeKind]jute.EventType{
	jute.ChangeCreated: jute.EventCreated, jute.ChangeDeleted: jute.EventDeleted, jute.ChangeData: jute.EventDataChanged, jute.ChangeChildren: jute.EventChildrenChanged,
}

// appendMissed appends the event that a change is for persistent watches, if it is one.
func (t *watches) appendMissed(to []toldEvent, c *jute.Change) []toldEvent {
	watched := t.armed(watchPersistent, c.Path)
	switch {
	case c.Kind == jute.ChangeChildren: // for recursive watches the child itself is the event
		watched = watched && !relayNoParent.Planted()
	default:
		watched = watched || t.watchedAbove(c.Path)
	}
	if !watched {
		return to
	}
	return append(to, toldEvent{c.Zxid, jute.WatcherEvent{Type: eventsOf[c.Kind], State: jute.StateSyncConnected, Path: c.Path}})
}

// watchedAbove reports whether there is a recursive watch on a node, or on one above it.
func (t *watches) watchedAbove(path string) bool {
	for above := path; ; above = jute.Parent(above) {
		watched := t.armed(watchRecursive, above)
		if relayNotBelow.Planted() && above != path {
			watched = false
		}
		if watched || above == "/" || above == "" {
			return watched
		}
	}
}

// replaying reports whether the client's requests wait for a replay.
func (s *session) replaying() bool { return s.relay != nil && s.relay.replay != nil }

// seenLocked returns the highest zxid that a reply has shown, or an event of a Relay.
func (s *session) seenLocked() Zxid {
	if s.relay != nil {
		return max(s.lastZxid, s.relay.last)
	}
	return s.lastZxid
}
