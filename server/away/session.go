package away

import (
	"slices"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/watch"
)

// Faults of the answers.
var (
	olderShown   = mutant.New("away-older")       // an answer may be older than what the session has seen
	backwards    = mutant.New("away-backwards")   // or than its last answer
	untimed      = mutant.New("away-untimed")     // an answer does not say how new it is
	writeTaken   = mutant.New("away-write")       // a write seems to be done
	syncTaken    = mutant.New("away-sync")        // a sync, too
	outsideGone  = mutant.New("away-outside")     // a node that is not known seems to be missing
	missedUntold = mutant.New("away-untold")      // watches that are set again do not tell what they have missed
	childrenPart = mutant.New("away-children")    // a part of the children is listed as all of them
	guessMissed  = mutant.New("away-guessed")     // nodes that are not known count as deleted for watches
	watchPassed  = mutant.New("read-only-passed") // an answer is newer than what is known of the nodes that are watched
)

// Session is a read-only session.
type Session struct {
	// Look calls take with what is known of a path, and returns whether it did.
	Look func(path string, take func(*resume.Remembered)) bool
	// Seen is the newest change that the session has seen.
	Seen jute.Zxid

	Reads, Refused int // that were answered, and that were not

	// When the session continues at a server, the client sets its watches again as of Seen. So Seen may not pass what is known of a node that it watches: a
	// change of the node before it would be no event.
	watches bool      // there are such nodes
	bound   jute.Zxid // up to which all of them are known
	names   []string
}

// watch notes that a node is watched, which is known up to a zxid.
func (s *Session) watch(upTo jute.Zxid) {
	if !s.watches || upTo < s.bound {
		s.watches, s.bound = true, upTo
	}
}

// passes reports whether the session can't be shown what is since a zxid.
func (s *Session) passes(since jute.Zxid) bool {
	passes := s.watches && since > max(s.bound, s.Seen)
	return passes && !watchPassed.Planted()
}

// Answer appends what the client gets for a request: events, and the reply. ends reports whether its connection ends then.
func (s *Session) Answer(b []byte, h jute.RequestHeader, body []byte) (_ []byte, ends bool) {
	d := jute.NewDecoder(body)
	switch h.Type {
	case jute.OpPing, jute.OpAuth: // the servers will decide about an identity; here it is of no use
	case jute.OpCheckWatches, jute.OpRemoveWatches: // the client knows them
	case jute.OpCloseSession:
		return s.reply(b, h.Xid, 0, nil), true
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		return s.read(b, h, &d), false
	case jute.OpSetWatches, jute.OpSetWatches2:
		return s.setWatches(b, h, &d), false
	case jute.OpAddWatch:
		return s.addWatch(b, h, &d), false
	case jute.OpGetACL, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpMultiRead, jute.OpWhoAmI:
		s.Refused++
		return s.reply(b, h.Xid, jute.ErrNotReadOnly, nil), false
	default:
		return s.change(b, h)
	}
	return s.reply(b, h.Xid, 0, nil), false
}

// change refuses what would change something, or is not known.
func (s *Session) change(b []byte, h jute.RequestHeader) (_ []byte, ends bool) {
	refused := h.Type.Write() || h.Type == jute.OpSync || h.Type == jute.OpCheck
	if h.Type.Feature() != 0 || !refused {
		return s.reply(b, h.Xid, jute.ErrUnimplemented, nil), true
	}
	s.Refused++
	code := jute.ErrNotReadOnly
	if writeTaken.Planted() && h.Type.Write() || syncTaken.Planted() && h.Type == jute.OpSync {
		code = 0
	}
	return s.reply(b, h.Xid, code, nil), false
}

func (s *Session) reply(b []byte, xid int32, code jute.Code, body func([]byte) []byte) []byte {
	b, mark := jute.BeginFrame(b)
	h := jute.ReplyHeader{Xid: xid, Zxid: s.Seen, Err: code}
	if b = h.Append(b); body != nil {
		b = body(b)
	}
	return jute.EndFrame(b, mark)
}

// look calls take with what the session may see of a path now.
func (s *Session) look(path string, take func(*resume.Remembered)) (seen bool) {
	s.Look(path, func(n *resume.Remembered) {
		if seen = !s.isAhead(n); seen {
			take(n)
		}
	})
	return seen
}

// isAhead reports whether the session has seen more than is known.
func (s *Session) isAhead(n *resume.Remembered) bool {
	older := s.Seen > n.Zxid
	older = older && !olderShown.Planted()
	return older
}

func (s *Session) read(b []byte, h jute.RequestHeader, d *jute.Decoder) []byte {
	var q jute.PathWatchRequest
	if q.Decode(d); d.Err() != nil || len(d.Rest()) > 0 {
		return s.reply(b, h.Xid, jute.ErrMarshalling, nil)
	}
	if jute.ValidatePath(q.Path) != nil {
		return s.reply(b, h.Xid, jute.ErrBadArguments, nil)
	}
	known := false
	s.look(q.Path, func(n *resume.Remembered) {
		if b, known = s.show(b, h, n); known && q.Watch && (n.Exists || h.Type == jute.OpExists) {
			s.watch(n.Zxid)
		}
	})
	if known {
		s.Reads++
		return b
	}
	s.Refused++
	code := jute.ErrNotReadOnly
	if outsideGone.Planted() {
		code = jute.ErrNoNode
	}
	return s.reply(b, h.Xid, code, nil)
}

// show appends the reply to a read of what is known, if that is all and can be shown.
func (s *Session) show(b []byte, h jute.RequestHeader, n *resume.Remembered) (_ []byte, known bool) {
	part := n.Exists && !n.Whole && (h.Type == jute.OpGetChildren || h.Type == jute.OpGetChildren2)
	part = part && !childrenPart.Planted()
	if part || s.passes(n.Since) {
		return b, false
	}
	before := s.Seen
	s.Seen = max(s.Seen, n.Since)
	if untimed.Planted() {
		s.Seen = before
	}
	if !n.Exists {
		b = s.reply(b, h.Xid, jute.ErrNoNode, nil)
	} else {
		b = s.reply(b, h.Xid, 0, func(b []byte) []byte { return n.Append(b, h.Type, &s.names) })
	}
	if backwards.Planted() {
		s.Seen = before
	}
	return b, true
}

// addWatch takes a watch where something is known.
func (s *Session) addWatch(b []byte, h jute.RequestHeader, d *jute.Decoder) []byte {
	var q jute.AddWatchRequest
	if q.Decode(d); d.Err() != nil {
		return s.reply(b, h.Xid, jute.ErrMarshalling, nil)
	}
	if _, ok := watch.ModeOf(q.Mode); !ok {
		return s.reply(b, h.Xid, jute.ErrMarshalling, nil)
	}
	if !s.look(q.Path, func(*resume.Remembered) {}) {
		s.Refused++
		return s.reply(b, h.Xid, jute.ErrNotReadOnly, nil)
	}
	return s.reply(b, h.Xid, 0, func(b []byte) []byte { return jute.AppendInt32(b, jute.Code(0)) })
}

// setWatches tells what a client that has come back has missed, as far as that is known.
func (s *Session) setWatches(b []byte, h jute.RequestHeader, d *jute.Decoder) []byte {
	var q jute.SetWatchesRequest
	if h.Type == jute.OpSetWatches2 {
		q.Decode2(d)
	} else {
		q.Decode(d)
	}
	if d.Err() != nil {
		return s.reply(b, h.Xid, jute.ErrMarshalling, nil)
	}
	type missed struct {
		typ   jute.EventType
		path  string
		since jute.Zxid
	}
	var events []missed
	for list, paths := range [...][]string{watch.DataList: q.Data, watch.ExistList: q.Exist, watch.ChildList: q.Child} {
		for _, path := range paths {
			var node watch.Seen
			e, upTo := missed{path: path}, s.Seen
			known := s.look(path, func(n *resume.Remembered) {
				node, upTo = watch.Seen{Exists: n.Exists, Mzxid: n.Stat.Mzxid, Pzxid: n.Stat.Pzxid}, n.Zxid
				e.since = n.Since
			})
			known = known || guessMissed.Planted()
			known = known && !missedUntold.Planted()
			tell := false
			if known {
				e.typ, _, tell = watch.List(list).CatchUp(node, q.RelativeZxid)
			}
			if tell {
				events = append(events, e)
			} else {
				s.watch(upTo)
			}
		}
	}
	// A watch whose event can't be told stays, and its node is known as it was then.
	if slices.ContainsFunc(events, func(e missed) bool { return s.passes(e.since) }) {
		s.watch(s.Seen)
	}
	seen := s.Seen
	for _, e := range events {
		if !s.passes(e.since) {
			b = appendEvent(b, e.typ, e.path)
			seen = max(seen, e.since)
		}
	}
	s.Seen = seen
	return s.reply(b, h.Xid, 0, nil)
}

func appendEvent(b []byte, typ jute.EventType, path string) []byte {
	b, mark := jute.BeginFrame(b)
	h := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: -1}
	ev := jute.WatcherEvent{Type: typ, State: jute.StateSyncConnected, Path: path}
	return jute.EndFrame(ev.Append(h.Append(b)), mark)
}
