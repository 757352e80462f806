package line

import (
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/watch"
)

// Line is one connection of a client, without its socket. It joins the parts: each has its own fields, and
// knows none of the others.
type Line struct {
	lines *Lines
	host  Host
	id    uint64 // origin of its requests, unique over servers and restarts

	Session   Session
	Waiting   Waiting
	Outbox    Outbox
	feeds     feed.Set   // guarded by the host's lock
	sight     *sight     // of the feeds, or nil; likewise
	restoring *restoring // a setWatches of which a part is served, or nil; likewise

	extensions
	seen     jute.Zxid     // the last zxid that the client had seen when it connected; set before it has its session
	readOnly bool          // the server had no leader when the client connected; likewise
	visits   bool          // see Visit
	batch    batch         // owned by the reader
	watcher  atomic.Uint64 // watch.Watcher plus one; 0 while there is none
}

// Begin makes the line one of a server's. id is the origin of its requests.
func (l *Line) Begin(lines *Lines, host Host, id uint64) {
	l.lines, l.host, l.id = lines, host, id
	l.Outbox.host, l.Outbox.limit = host, lines.Unread
}

// Host returns the connection around the line.
func (l *Line) Host() Host { return l.host }

// Origin returns the number of the line.
func (l *Line) Origin() uint64 { return l.id }

// SessionID returns the session, or 0. It may be called from any goroutine.
func (l *Line) SessionID() jute.SessionID { return l.Session.ID() }

// Visit makes the session of the line one that is local to this server, and stays so, whatever the configuration
// says: the client leaves nothing when it goes. The host calls it before Lines.Admit.
func (l *Line) Visit() { l.visits = true }

// WantsSession reports whether the line has a session or has requested one. It may be called from any goroutine.
func (l *Line) WantsSession() bool { return l.SessionID() != 0 || l.Waiting.Len() > 0 }

// ReadOnly reports whether the line has a session without a leader.
func (l *Line) ReadOnly() bool { return l.readOnly }

// LastTouch returns what is reported when the line has ended, and false if nothing is.
func (l *Line) LastTouch() (register.LastTouch, bool) { return l.Session.lastTouch() }

// WatchHandle returns the handle in the watch table.
func (l *Line) WatchHandle() (watch.Watcher, bool) {
	w := l.watcher.Load()
	return watch.Watcher(w - 1), w != 0
}

// watcherID returns the handle in the watch table, which is allocated with the first watch. The
// caller holds the tree lock.
func (l *Line) watcherID() watch.Watcher {
	if w := l.watcher.Load(); w != 0 {
		return watch.Watcher(w - 1)
	}
	w := l.lines.Register.AddWatcher(l)
	l.watcher.Store(uint64(w) + 1)
	return w
}

// Kill ends the line. It returns the output that is not sent, or nil.
func (l *Line) Kill() *Buffer {
	l.Outbox.Break()
	l.feeds.Close() // the next connection of the session may need their places
	return l.Outbox.Take()
}

// Forget drops what an ended line holds. The tree is locked for reading.
func (l *Line) Forget() *Buffer {
	l.Waiting.Rest()
	l.restoring = nil
	return l.Kill()
}

// Drop removes the oldest request that waits. The line is locked.
func (l *Line) Drop() { l.host.Left(l.Waiting.drop()) }

// Reply starts a frame with a reply header, and returns the buffer to append the body to. Outbox.Finish or
// Outbox.Discard must follow.
func (l *Line) Reply(xid int32, zxid jute.Zxid, code jute.Code) []byte {
	l.catchUp()
	return l.Outbox.begin(xid, zxid, code)
}

// ReplyCode appends a reply without a body.
func (l *Line) ReplyCode(xid int32, zxid jute.Zxid, code jute.Code) {
	l.Outbox.Finish(l.Reply(xid, zxid, code))
}

// Send appends a complete frame that its client has not asked for, including its length prefix. It
// returns false if the client is too slow to be sent any more.
func (l *Line) Send(frame []byte) bool {
	l.catchUp()
	return l.Outbox.send(frame)
}

// endSession ends the line of a session that its client has closed: it sends nothing afterwards.
func (l *Line) endSession() {
	if !closedOpen.Planted() {
		l.Outbox.End(false)
	}
}
