package line

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/feed"
)

// A line's feeds (package feed) are cursors in the history of changes. What they have to send
// is put into the buffer by Line.Feed, and before anything else is put there that could show
// a change which they lack: see Line.catchUp.

// catchUp puts what the feeds lack into the buffer, before anything else that could show it.
func (l *Line) catchUp() {
	if l.feeds.Empty() {
		return
	}
	if !feedLate.Planted() {
		l.feeds.CatchUp(l.sendEvent)
	}
}

// sendEvent puts the next event of a feed, if it has one, into the buffer, unless the
// connection ends. A client that does not take its events loses the connection.
func (l *Line) sendEvent(f *feed.Feed) bool {
	if l.Outbox.IsOver() {
		return false
	}
	b := l.Outbox.chunk()
	begin := len(b)
	if at := l.lines.State.Applied(); l.sight == nil || l.sight.at != at { // a transaction is told in parts
		l.sight = &sight{at: at, schemes: l.lines.Schemes}
	}
	l.sight.ids = l.host.Present().IDs()
	b = f.Append(b, l.sight.mayRead)
	l.Outbox.unsent.b = b
	size := len(b) - begin - 4
	if size < 0 {
		return true
	}
	l.Outbox.unsent.observeSize(size)
	l.host.Sent(size)
	if l.Outbox.tooSlow() {
		l.lines.Server.Slow(l, Feeds)
		l.Outbox.End(false)
	}
	return true
}

// sight decides what a client sees of changes.
type sight struct {
	at      jute.Zxid // the last transaction that was applied when lists was empty
	schemes *auth.Schemes
	ids     []jute.ID
	lists   auth.Memory
}

// mayRead reports whether an ACL list allows the client to read.
func (s *sight) mayRead(acl []jute.ACL) bool {
	allowed, _ := s.schemes.AllowedOnce(&s.lists, acl, jute.PermRead, s.ids)
	return allowed
}

// Feed puts the next event of each feed into the buffer, and reports whether there is more.
func (l *Line) Feed() (more bool) {
	if feederAsleep.Planted() {
		return false
	}
	return l.feeds.Next(l.sendEvent)
}

// Feeds returns the feeds of the line.
func (l *Line) Feeds() []*feed.Feed { return l.feeds.All() }
