// Package session holds what servers know of sessions besides the tree: how ids
// and passwords are made, what timeout a client gets, and the leader's table of
// deadlines and owners, the [Tracker]. It is pure: time comes in as int64
// milliseconds of a monotonic clock, ids and secrets as arguments.
//
// That a session exists, and its timeout, is replicated state: the transactions
// createSession and closeSession change it, and the tree keeps it. The tracker
// of a leader is beside that and dies with the role: it says who is alive. Only
// the leader lets sessions expire (zab.md section E).
//
// # Expire late, never early
//
// A deadline is the last touch plus the timeout, rounded up to the next
// multiple of tickTime beyond it. So a session lives between timeout and timeout
// plus tickTime after its last touch, and sessions expire in buckets. When
// touches could not arrive (the process was stopped, the disk or the quorum did
// not answer), the leader moves all deadlines by the length of the gap with
// [Tracker.Postpone]; a new leader gives everybody a full timeout with
// [Tracker.Reset].
//
// Clients of other servers touch their sessions there, and the leader hears of it
// later. [Tracker.Expire] asks whether a server may know more about a session that
// is due, and leaves it for the next time if so.
//
// # Closing
//
// A session is closing from [Tracker.MarkClosing], or from the [Tracker.Expire]
// that returned it, until Remove or Reset. Exactly one of these calls wins, so a
// session gets at most one closeSession proposal from each leader. A closing
// session can't be touched, and its writes are refused.
//
// # Invariants
//
//   - A Touch that returned true happened before any Expire of the session: the
//     deadline and the closing mark are one atomic word.
//   - A bucket's time is never after the deadline of a session in it, unless
//     the session is closing or was held. A touch leaves a session where it is; Expire moves
//     it on when its bucket is due.
//   - A touch never makes a deadline earlier, so it does not matter in which
//     order the touches of a session arrive. Only Renew, SetTimeout and Reset may.
//
// # Goroutines
//
// Everything here is safe for concurrent use. Session.Touch takes no lock: it
// is for the packets of a connection, which holds its *Session. The calls that
// go by id take the tracker's read lock for the lookup.
package session
