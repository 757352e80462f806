// Package line has the rules of a client's connection: in which order its requests are answered, what is sent on
// it and when it ends. Servers (package clients) and the simulator both run it.
//
//	requests ── Accept ── WayOf ─┬─ Serve ──────────────────────────┐
//	                             ├─ Queue ──┐                       ├── Buffer ── client
//	                             └─ Submit ─┴─ the queue … Answers ─┘
//	                                  └── the leader ────┘
//
// A line gets requests that have been cut from the socket, and puts the frames of replies and events into its
// [Buffer], which its host writes. It reads no clock, has no socket and starts no goroutine.
//
// A [Line] joins parts that have their own fields and do not know each other: [Session] (which one, and when its
// client was last heard of), [Waiting] (the requests without an answer), [Outbox] (what is sent, and until when),
// its feeds, its extensions, and the batch of requests that is being handled.
//
// # Invariants
//   - Requests are answered in their order, each once. A read that follows a write waits in the queue until the
//     write is answered, and is then served.
//   - An event precedes each reply that shows its change; what feeds lack precedes both.
//   - The queue outlives the leader: see interlude.go. A request takes effect once, or the line ends.
//   - After the answer to closeSession, and in a line that has ended, nothing is sent.
//
// # Words
//
//   - The reader is the host's goroutine that brings the requests. It is the only one that makes the queue longer.
//   - A request is ordered if the leader orders its answer: writes, sync and connect. All others are reads here.
//   - The line's own requests come from no client: to open or resume a session, and to upgrade a local one. The reader waits for them.
//   - A service is a time in which the server has a leader; its fence is the point from which on nothing of earlier services can
//     take effect; the time between is an interlude (package replica).
//   - A touch is the time when a client was last heard of. Servers report touches to the leader, which expires sessions.
//   - A barrier is an answer of the leader without a transaction.
//
// # Goroutines and locks
//
// The host's lock guards a line, except for the fields that say otherwise. The order of locks is: the tree's, a line's,
// then those of the watch table, of the register and of the views. (An event is delivered with the table's lock held:
// the applier has the tree's lock for writing then, and no reader of the tree waits for the table.) Only the applier
// calls [Answers]. It holds the lock of one line at a time, and none when it ends another one.
//
// # Mutants
//
// A mutant is a fault that is planted in these rules, in builds with the tag zabmutants. A page of text in
// testdata or a run of the simulator finds each.
package line
