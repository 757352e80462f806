// Package session holds the state of sessions outside the tree: how ids and passwords are
// made, which timeout a client gets, and the leader's table of deadlines and owners, the
// [Tracker]. It is pure: times are int64 milliseconds of a monotonic clock, and times,
// ids and secrets are arguments.
//
// The existence of a session and its timeout are replicated state: the transactions
// createSession and closeSession change it, and the tree keeps it. The tracker of a
// leader is separate and ends with the role: it records which sessions are alive. Only
// the leader expires sessions (zab.md section E).
//
// # Expire late, never early
//
// A deadline is the last touch plus the timeout, rounded up to the next multiple of
// tickTime beyond it. So a session lives between timeout and timeout plus tickTime after
// its last touch, and sessions expire in buckets. When touches could not arrive (the
// process was stopped, the disk or the quorum did not answer), the leader moves all
// deadlines by the length of the gap with [Tracker.Postpone]; a new leader gives all
// sessions a full timeout with [Tracker.Reset].
//
// Clients of other servers touch their sessions there, and the leader learns of it later.
// [Tracker.Expire] asks whether a server may know more about a session that is due, and
// if so leaves it for the next time.
//
// # Closing
//
// A session is closing from [Tracker.MarkClosing], or from the [Tracker.Expire]
// that returned it, until Remove, Reset or Revive. Exactly one of these calls wins, so a
// session gets at most one closeSession proposal from each leader. A closing
// session can't be touched, and its writes are refused.
//
// # Invariants
//
//   - A Touch that returned true happened before any Expire of the session: the deadline
//     and the closing mark are one atomic word.
//   - A bucket's time is never after the deadline of a session in it, unless the session
//     is closing or was held. A touch leaves a session in its bucket; Expire moves it
//     when the bucket is due.
//   - A touch never makes a deadline earlier, so the order in which the touches of a
//     session arrive does not matter. Only Renew, SetTimeout, Reset and Revive may make it
//     earlier.
//
// # Goroutines
//
// The package is safe for concurrent use. Session.Touch takes no lock: it is for the
// packets of a connection, which holds its *Session. The methods that take an id take the
// tracker's read lock for the lookup.
package session
