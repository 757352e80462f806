package line

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line/pending"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/watch"
)

// Host is the connection around a line. Its lock guards the line. Except for those of the lock,
// Kill, Decided and Operate, its methods are called with the lock held, and may not take it.
type Host interface {
	sync.Locker
	Kill()                      // ends the connection at once, with Line.Kill
	Decided()                   // the line's own request is decided: see Line.Open and Line.Upgrade
	Operate(*Request)           // answers a request about the server itself; the tree is locked
	Sent(size int)              // a frame of that size was put into the buffer
	Left(large, size int64)     // a request has left the queue: see Request.Large and Request.Size
	Ending()                    // the connection ends when the buffer is written
	Groups() []string           // what the client has in common with others: see package fair
	Present() *auth.Credentials // the client's, without those that have ended
	// Held returns those of the identities of a request that has waited which have not ended.
	Held([]jute.ID) []jute.ID
}

// UnreadLimit is Lines.Unread of a server.
const UnreadLimit = 64 << 20

// Line is one connection of a client, without its socket: the requests that wait, and what is sent,
// in its order.
type Line struct {
	lines *Lines
	host  Host
	id    uint64 // origin of its requests, unique over servers and restarts

	// Set by the reader, or by the applier while the reader waits, before the client has its session.
	seen      jute.Zxid // the last zxid that the client had seen when it connected
	timeoutMs int32     // negotiated
	readOnly  bool      // the server had no leader when the client connected
	extended  bool      // the client has asked for extensions
	asked     jute.ExtensionRequest
	granted   jute.Features

	// Owned by the reader.
	mayAnswerLocally bool // the requests being handled may be answered without the leader
	askedLeader      bool // one of them went to the leader

	// Read by all.
	session atomic.Int64                    // jute.SessionID; 0 until established
	local   atomic.Bool                     // the session is local to this server
	tracked atomic.Pointer[session.Session] // set before session
	watcher atomic.Uint64                   // watch.Watcher plus one; 0 while there is none
	waiting atomic.Int32                    // length of queue; only the reader raises it
	touched atomic.Int64                    // when the client was last heard of, in ms; or arriving
	cut     atomic.Bool                     // nothing more is sent: see Cut

	reported int64 // the part of touched that was reported to the leader; owned by the caller of Touches

	// Guarded by the host's lock.
	queue   pending.Queue[Request] // from the first unanswered write on
	out     *Buffer                // nil while empty
	mark    int                    // where the frame being appended begins
	feeds   feed.Set
	ending  bool // close once out is written; nothing more is appended
	lingers bool // with ending: the client may have sent more
	gone    bool // the connection has ended
}

// Begin makes the line one of a server's. id is the origin of its requests.
func (l *Line) Begin(lines *Lines, host Host, id uint64) { l.lines, l.host, l.id = lines, host, id }

// Host returns the connection around the line.
func (l *Line) Host() Host { return l.host }

// Origin returns the number of the line.
func (l *Line) Origin() uint64 { return l.id }

// SessionID returns the session, or 0. It may be called from any goroutine.
func (l *Line) SessionID() jute.SessionID { return jute.SessionID(l.session.Load()) }

// Local reports whether the session is local to this server. It may be called from any goroutine.
func (l *Line) Local() bool { return l.local.Load() }

// TimeoutMs returns the timeout of the session.
func (l *Line) TimeoutMs() int32 { return l.timeoutMs }

// Waiting returns how many requests wait. It may be called from any goroutine.
func (l *Line) Waiting() int { return int(l.waiting.Load()) }

// Queued returns the requests that wait. They are valid while the lock is held.
func (l *Line) Queued() []Request { return l.queue.All() }

// WantsSession reports whether the line has a session or has requested one. It may be called from any goroutine.
func (l *Line) WantsSession() bool { return l.SessionID() != 0 || l.Waiting() > 0 }

// LastTouch returns what is reported when the line has ended. A local session's leader need not
// hear of it.
func (l *Line) LastTouch() (register.LastTouch, bool) {
	s := l.SessionID()
	return register.LastTouch{Session: s, TimeoutMs: l.timeoutMs, At: l.touched.Load()}, s != 0 && l.toReport()
}

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

// IsOver reports whether nothing more is sent.
func (l *Line) IsOver() bool { return l.ending || l.gone || l.cut.Load() }

// Ends reports whether the connection ends, or has ended.
func (l *Line) Ends() bool { return l.ending || l.gone }

// Gone reports whether the connection has ended.
func (l *Line) Gone() bool { return l.gone }

// Lingers reports whether the client of a connection that ends may have sent more.
func (l *Line) Lingers() bool { return l.lingers }

// Cut makes the line send nothing more, although it has not ended. It may be called from any goroutine.
func (l *Line) Cut() { l.cut.Store(true) }

// IsCut reports whether Cut was called. It may be called from any goroutine.
func (l *Line) IsCut() bool { return l.cut.Load() }

// Break makes the line send nothing more, since the socket is broken.
func (l *Line) Break() { l.gone = true }

// Kill ends the line. It returns the output that is not sent, or nil.
func (l *Line) Kill() *Buffer {
	l.gone = true
	l.feeds.Close() // the next connection of the session may need their places
	return l.Take()
}

// Forget drops what an ended line holds. The tree is locked for reading.
func (l *Line) Forget() *Buffer {
	l.queue.Clear()
	return l.Kill()
}

// End makes the bytes in the buffer the connection's last ones.
func (l *Line) End(lingers bool) {
	l.ending = true
	l.lingers = l.lingers || lingers
	l.host.Ending()
}

// Out returns the frames that are not taken, or nil.
func (l *Line) Out() *Buffer { return l.out }

// Take takes the frames, or nil.
func (l *Line) Take() *Buffer {
	out := l.out
	l.out = nil
	return out
}

// Rest frees memory of a line that is idle.
func (l *Line) Rest() { l.queue.Clear() }

// catchUp puts what the feeds lack into the buffer, before anything else that could show it.
func (l *Line) catchUp() {
	if l.feeds.Empty() {
		return
	}
	if !feedLate.Planted() {
		l.feeds.CatchUp(l.sendEvent)
	}
}

func (l *Line) chunk() []byte {
	if l.out == nil {
		l.out = buffers.Get().(*Buffer)
	}
	return l.out.chunk()
}

// Reply starts a frame with a reply header, and returns the buffer to append the body to. Finish or
// Discard must follow.
func (l *Line) Reply(xid int32, zxid jute.Zxid, code jute.Code) []byte {
	l.catchUp()
	b := l.chunk()
	l.mark = len(b)
	b = append(b, 0, 0, 0, 0)
	b = jute.AppendInt32(b, xid)
	b = jute.AppendInt64(b, zxid)
	return jute.AppendInt32(b, code)
}

// Finish completes the frame that Reply started.
func (l *Line) Finish(b []byte) {
	size := len(b) - l.mark - 4
	binary.BigEndian.PutUint32(b[l.mark:], uint32(size))
	if l.IsOver() {
		l.out.b = b[:l.mark]
		return
	}
	l.out.b = b
	l.out.observeSize(size)
	l.host.Sent(size)
}

// Discard discards the frame that Reply started.
func (l *Line) Discard(b []byte) { l.out.b = b[:l.mark] }

// ReplyCode appends a reply without a body.
func (l *Line) ReplyCode(xid int32, zxid jute.Zxid, code jute.Code) {
	l.Finish(l.Reply(xid, zxid, code))
}

// tooSlow reports whether the client is too slow in taking its output: the buffer is too long,
// without the longest reply in it.
func (l *Line) tooSlow() bool {
	out := l.out
	return out != nil && out.Len()-out.most > l.lines.Unread
}

// Send appends a complete frame that its client has not asked for, including its length prefix. It
// returns false if the client is too slow to be sent any more.
func (l *Line) Send(frame []byte) bool {
	l.catchUp()
	slow := l.tooSlow() && !l.IsOver()
	slow = slow && !slowKept.Planted()
	if !slow {
		l.put(frame)
	}
	return !slow
}

// put appends a complete frame, including its length prefix, unless the line is over.
func (l *Line) put(frame []byte) {
	if l.IsOver() {
		return
	}
	b := append(l.chunk(), frame...)
	l.out.b = b
	l.host.Sent(len(frame) - 4)
}
