package cluster

import (
	"path"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// checkWatches goes through all connections and checks that an event comes before
// anything that shows the change, that none is left out, and that none comes
// for nothing.
func checkWatches(l *ledger) findings {
	var f findings
	for _, log := range l.h.logs {
		checkWatchesOf(l, log, &f)
	}
	return f
}

func checkWatchesOf(l *ledger, log *connLog, f *findings) {
	set := make(map[watch]struct{})
	for i, fr := range log.frames {
		if fr.kind == anEvent {
			checkEvent(l, log, fr, set, f)
			continue
		}
		for w := range set {
			if due := l.due(w); due != 0 && due <= fr.zxid {
				f.add("session %v, server %d: a reply of %v came before the event of %v for %v\n\twhat is known of it: %v",
					log.session, log.server, fr.zxid, due, w, log.about(w.path, i))
				delete(set, w)
			}
		}
		switch fr.kind {
		case aRegistration:
			checkRegistered(l, log, i, set, f)
		case aReply:
			if w, ok := fr.op.watches(); ok && !similar(set, w) {
				set[w] = struct{}{}
			}
		}
	}
}

// about returns the frames that concern a path, and the last few before one.
func (log *connLog) about(path string, before int) (list []frame) {
	for i, fr := range log.frames {
		concerns := fr.path == path || fr.kind == aRegistration || i > before-4 && i <= before+2
		if fr.kind == aReply {
			for _, p := range fr.op.parts() {
				concerns = concerns || p.path == path
			}
		}
		if concerns {
			list = append(list, fr)
		}
	}
	return list
}

// watches returns the watch that an op has set.
func (o *op) watches() (watch, bool) {
	w := watch{path: o.path, since: o.zxid}
	switch {
	case !o.watch:
		return w, false
	case o.code == jute.OpGetChildren2 && o.state == done:
		w.kind = onChild
	case o.code == jute.OpExists && o.err == jute.ErrNoNode:
		w.kind = onExist
	case o.state == done:
		w.kind = onData
	default:
		return w, false
	}
	return w, true
}

// similar reports whether the server has the same watch already, which fires
// once for both.
func similar(set map[watch]struct{}, w watch) bool {
	for have := range set {
		if have.path == w.path && (have.kind == onChild) == (w.kind == onChild) {
			return true
		}
	}
	return false
}

// due returns the zxid of the first known change that a watch must fire at, or 0
// if none is known.
func (l *ledger) due(w watch) jute.Zxid {
	if w.kind == onChild {
		list := l.kids[w.path]
		i, _ := slices.BinarySearch(list, w.since+1)
		if i < len(list) {
			return list[i]
		}
		return 0
	}
	if _, next := l.at(w.path, w.since); next != nil {
		return next.zxid
	}
	return 0
}

// checkEvent finds the watch that an event is for.
func checkEvent(l *ledger, log *connLog, fr frame, set map[watch]struct{}, f *findings) {
	found := false
	for w := range set {
		if w.path != fr.path || !w.kind.hears(fr.event) {
			continue
		}
		found = true
		delete(set, w)
		due := l.due(w)
		switch {
		case due == 0 && !l.mayChange(w):
			f.add("session %v, server %d: event %v for %s at %v without a change after %v", log.session, log.server, fr.event, fr.path, fr.zxid, w.since)
		case fr.zxid > 0 && due != 0 && due < fr.zxid:
			f.add("session %v, server %d: event %v for %s is that of %v, but there is a change at %v after %v",
				log.session, log.server, fr.event, fr.path, fr.zxid, due, w.since)
		}
	}
	if !found && !log.registering(fr) {
		f.add("session %v, server %d: event %v for %s, which was not watched", log.session, log.server, fr.event, fr.path)
	}
}

// registering reports whether a frame comes before the reply to setWatches: it
// tells what the client has missed.
func (log *connLog) registering(fr frame) bool {
	for _, later := range log.frames {
		if later.kind == aRegistration {
			return slices.ContainsFunc(later.taken, func(w watch) bool { return w.path == fr.path })
		}
		if later.kind == aReply {
			return false
		}
	}
	return false
}

// checkRegistered checks that what was missed between two connections has been told
// before the reply to setWatches, which is the i-th frame. Watches of which
// nothing was told are set now.
func checkRegistered(l *ledger, log *connLog, i int, set map[watch]struct{}, f *findings) {
	reg := log.frames[i]
	for _, w := range reg.taken {
		if slices.ContainsFunc(log.frames[:i], func(fr frame) bool {
			return fr.kind == anEvent && fr.path == w.path && w.kind.hears(fr.event)
		}) {
			continue
		}
		switch due := l.due(w); {
		case due == 0 || due > reg.zxid:
			set[w] = struct{}{}
		case l.undone(w, reg.zxid):
			set[watch{w.kind, w.path, reg.zxid}] = struct{}{}
		default:
			f.add("session %v, server %d: setWatches at %v does not tell of the change at %v for %v", log.session, log.server, reg.zxid, due, w)
		}
	}
}

// undone reports whether a node that was not there is not there again: setWatches
// does not tell of what came and went.
func (l *ledger) undone(w watch, zxid jute.Zxid) bool {
	if w.kind != onExist {
		return false
	}
	last, _ := l.at(w.path, zxid)
	return last == nil || last.kind == deleted || l.vanished(w.path, last.owner)
}

// mayChange reports whether there may be changes that the ledger does not know.
func (l *ledger) mayChange(w watch) bool {
	for p, h := range l.hidden {
		if (p == w.path || w.kind == onChild && path.Dir(p) == w.path) && *h != (hidden{}) {
			return true
		}
	}
	for p, facts := range l.facts {
		if p != w.path && (w.kind != onChild || path.Dir(p) != w.path) {
			continue
		}
		for _, f := range facts {
			if f.owner != 0 && l.vanished(p, f.owner) {
				return true
			}
		}
	}
	return w.kind != onChild && strings.HasSuffix(w.path, "/lock")
}
