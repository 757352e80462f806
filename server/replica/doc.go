// Package replica decides, above a zab.Core, what one server of an ensemble does with
// the requests of its clients: in which order they take effect, what the applier
// applies, and which requests may be answered.
//
// A Replica is a pure state machine. It does no I/O, starts no goroutines and reads no
// clock but Options.Now and Options.Wall. One goroutine, the server's peer loop or the
// simulator, owns it: it calls the inputs, and then Take until there is nothing left to
// do. The Core may be given its own inputs directly.
//
//	Submit, Frame, Core.Recv, Persisted, Tick …
//	    │
//	    ▼
//	Take(*Output)    Persist   records for the log, in order
//	                 Frames    to other servers, before
//	                 Send      the core's messages: a barrier reaches a follower
//	                           before the entries that follow it
//	                 End       connections that end
//	                 Orders    what the applier applies and answers, in order
//
// A request becomes one of two things. A write becomes a transaction, which the leader
// evaluates and proposes as an entry, and which is answered where its client is when it
// is applied there. Every other request becomes a barrier: it is answered when all that
// was proposed before it is applied, and, if the leader has no lease, when a quorum has
// confirmed that it still leads.
//
//	Request ──evaluate──▶ Txn ──propose──▶ Entry ──persist──▶ Record
//
// Invariants:
//
//   - Orders are in the order of zxids, and a barrier stands after the last entry that
//     was proposed before it. An order that follows an unconfirmed barrier waits for it.
//   - What a client has asked for in one role is never answered in another one: the
//     connections end with the role (Output.ServiceEnded). A request of such a
//     connection that comes later is refused.
//   - A session expires only when no server can have answered its client so recently
//     that the client counts on it: see liveness.go.
//   - What is held in memory is bounded by Limits.
//
// The packages below it are zab (agreement), evaluate (what a request becomes), session
// (who is alive) and datatree. The rules are those of docs/spec/zab.md, section E.
package replica
