// Package replica decides, on top of a zab.Core, how one server of an ensemble handles
// the requests of its clients: in which order they take effect, what the applier applies,
// and which requests may be answered.
//
// A Replica is a pure state machine. It does no I/O, starts no goroutines and reads no
// clock but Options.Now and Options.Wall. One goroutine, the server's peer loop or the
// simulator, owns it: it calls the inputs, and then Take until there is nothing left to
// do. The Core's own inputs may be called directly.
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
// A request becomes either a transaction or a barrier. The leader evaluates a write into
// a transaction and proposes it as an entry; it is answered at its client's server when
// it is applied there. Opening and resuming a session are transactions, too: they make the
// connection its owner, and a write of any other becomes a barrier that ends its
// connection. Every other request becomes a barrier, too: it is answered when everything
// proposed before it is applied and, if the leader has no lease, when a quorum has
// confirmed that it still leads.
//
// A change of the members is neither: the leader proposes a list of members, and a barrier
// after it answers the client (reconfig.go). A server that is no member asks the leader to
// add it (join.go). With autopilot the leader changes the roles of servers that are gone for
// long (autopilot.go).
//
//	Request ──evaluate──▶ Txn ──propose──▶ Entry ──persist──▶ Record
//
// Invariants:
//
//   - Orders are in the order of zxids, and a barrier follows the last entry that was
//     proposed before it. An order after an unconfirmed barrier waits for it.
//   - A request is done at most once, also if the leader changes while it is under way:
//     see service.go.
//   - A session expires only when no server can have answered its client so recently that
//     the client counts on it: see liveness.go.
//   - Limits bounds the memory held.
//
// It builds on zab (agreement), evaluate (requests into transactions), session (liveness)
// and datatree. The rules are those of docs/dev/spec/zab.md, section E.
package replica
