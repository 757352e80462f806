package clients

import (
	"sync"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
)

// guardedLine is the line of a connection with its lock. The lock also guards the fields here, and those of
// the connection's other parts that say so.
type guardedLine struct {
	sync.Mutex
	line.Line

	changed  sync.Cond // the buffer was written, the queue got shorter, or the connection is gone
	draining bool      // answer what is pending, then end: the server stops, or moves its clients
	exempt   uint64    // number of the drain that leaves the connection alone; 0 for none
	audited  uint64    // what is sent waits for this entry of the audit log; 0 for none
}

// endsLocked reports whether no further request is handled.
func (l *guardedLine) endsLocked() bool { return l.Outbox.Ends() || l.draining }

// isOver is endsLocked for callers without the lock.
func (l *guardedLine) isOver() bool {
	l.Lock()
	defer l.Unlock()
	return l.endsLocked()
}

// drain ends the connection once its pending requests are answered. A client that does not
// read is not waited for.
func (l *guardedLine) drain() {
	l.Lock()
	defer l.Unlock()
	l.draining = true
	l.Host().Ending()
}

// reply appends a reply without a body.
func (l *guardedLine) reply(xid int32, zxid jute.Zxid, code jute.Code) {
	l.Lock()
	defer l.Unlock()
	l.ReplyCode(xid, zxid, code)
}

// replyToken appends a reply whose body is a token of SASL.
func (l *guardedLine) replyToken(xid int32, code jute.Code, token []byte) {
	l.Lock()
	defer l.Unlock()
	l.Outbox.Finish(jute.AppendBuffer(l.Reply(xid, 0, code), token))
}

// endAfterFlush makes the bytes in the buffer the connection's last ones, and wakes
// the reader, which writes them and finishes.
func (l *guardedLine) endAfterFlush() {
	l.Lock()
	defer l.Unlock()
	l.Outbox.End(true)
}

// refuseSession tells the client that its session no longer exists, and ends the connection.
func (l *guardedLine) refuseSession(hasReadOnly bool) {
	l.Lock()
	defer l.Unlock()
	l.Refuse(hasReadOnly)
}

// waitFor makes what is sent wait for an entry of the audit log, unless its number is 0.
func (l *guardedLine) waitFor(entry uint64) {
	if entry != 0 {
		l.Lock()
		defer l.Unlock()
		l.audited = entry
	}
}

// waitForLocked is waitFor for callers with the lock.
func (l *guardedLine) waitForLocked(entry uint64) {
	if entry != 0 {
		l.audited = entry
	}
}
