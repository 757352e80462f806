package line

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/clients/line/views"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
)

// Limits are lengths in bytes that depend on the configuration.
type Limits struct {
	Reply     int // the longest reply
	LongReply int // a longer reply is reported
	Page      int // the longest page
	PageNodes int // the most nodes of a page, so that the tree is not locked for long
	Part      int // the most watches that are restored, or told of an event in slices, at a time, likewise
}

// Server is what lines ask of the server around them, and tell it. The line's lock is held in all calls with one.
type Server interface {
	Limits() Limits
	// NextSession returns a fresh session id. The tree is locked.
	NextSession() jute.SessionID
	// Members returns the zxid of the present list of members. The tree is locked, or does not change.
	Members() jute.Zxid
	// Submit hands over requests to be ordered, after all that were handed over before.
	Submit(...replica.Submission)
	// Subscribed is called when a line has a feed or another one has credit.
	Subscribed(l *Line, begun bool)
	// LongReply is called for a reply to a request about path that is longer than Limits.LongReply, and is refused or not.
	LongReply(l *Line, req *Request, path string, size int, refused bool)
	// Served is called when a request was answered from the tree, or is about to be with an error.
	Served(l *Line, req *Request, err error)
	// ServedPart is called for each operation of a multiRead.
	ServedPart(l *Line, req *Request, op *jute.MultiOp, code jute.Code)
	// Slow is called when a client is too slow in taking the output, and so its connection ends.
	Slow(l *Line, what Output)
}

// Output is what a client does not take.
type Output uint8

// The outputs.
const (
	Events Output = iota // of watches
	Reads                // replies to reads after one write
	Feeds                // events of feeds
)

// Lines are the connections of one server, and what they share.
type Lines struct {
	Server   Server
	State    *state.State
	Schemes  *auth.Schemes
	Sessions *session.Tracker // of the ensemble
	Locals   *session.Tracker // of local sessions
	Register *register.Register[*Line]
	Views    Views
	History  *feed.History // of changes, for feeds; nil for none
	Places   *feed.Places  // of feeds
	// Unread is how many unread bytes from the applier a client may have, beside one reply of any
	// length, before it is disconnected: events, and replies to reads after a write. Other requests are
	// limited by not reading the client's next one.
	Unread int
	// LocalSessions: sessions are local at first. Upgrading: they become global with their first ephemeral.
	LocalSessions, Upgrading bool

	fenced atomic.Uint64 // the last service that connections of earlier ones have entered
}

// Views are the subtrees that clients are reading, used by holders of the tree's lock for reading.
type Views struct {
	Lock sync.Locker
	views.Table[*Line]
}

// Fenced returns the last service whose fence has passed.
func (s *Lines) Fenced() uint64 { return s.fenced.Load() }

// DropLine closes the views of a line that has ended. The tree is locked for reading.
func (v *Views) DropLine(l *Line) {
	if viewKept.Planted() {
		return
	}
	v.Lock.Lock()
	defer v.Lock.Unlock()
	v.Drop(l)
}

// Ending ends the connection of a line that can't go on, and why.
type Ending uint8

// Why connections end.
const (
	Misfit      Ending = iota // an answer does not belong to the oldest request
	LostRefusal               // the answer to a refused request was lost with the leader
	Ahead                     // the client has seen a later state than this server
)

// Applier is what Answers tell the applier, and ask of it. The tree is locked for writing.
type Applier interface {
	// Answering is called before the reply to a request that the leader has ordered, with the line's lock.
	Answering(l *Line, req *Request, o *replica.Order, txn *datatree.Txn, results []datatree.Result)
	// Answered is called afterwards, with the line's lock.
	Answered(l *Line, req *Request, o *replica.Order, code jute.Code)
	// Unanswered is called for a transaction of a line that ends, with its lock.
	Unanswered(l *Line, txn *datatree.Txn, results []datatree.Result)
	// AnswerLost is called for a transaction whose line has ended.
	AnswerLost(txn *datatree.Txn, results []datatree.Result)
	// ServedLate is called when a read was answered that has waited.
	ServedLate(l *Line, req *Request, read *Read)
	// Yield is called between two reads. It may unlock the tree for a while.
	Yield()
	// ServedAll is called after n reads that have waited for one answer.
	ServedAll(n int)
	// Notified is called when an event was sent, as a frame of size bytes.
	Notified(l *Line, size int)
	// Telling is called after some watches of an event that has many, and may unlock the tree for a while.
	Telling(watches int)
	// Fired is called for each event that was sent to a number of watchers.
	Fired(ev *datatree.Event, heard int)
	// Dirty is called for a line that has output.
	Dirty(l *Line)
	// Established is called when the leader has opened or resumed a session.
	Established(l *Line)
	// Ends is called before the connection of a line is ended for this reason.
	Ends(l *Line, why Ending, req *Request, o *replica.Order)
}

// millis converts a time of the server's clock for the session tracker.
func millis(d time.Duration) int64 { return d.Milliseconds() }
