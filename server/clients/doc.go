// Package clients serves the clients of one server: it accepts their connections and
// requests, answers reads from the tree, hands writes over to be ordered, and sends the
// answers and watch events.
//
//	client ── reader ──── read ──── State ────────┐
//	            │                                 ├── out buffer ── client
//	            └─ write ── Backend … Answers ────┘
//
// A connection has one goroutine, its reader, which also writes the replies to reads. While its
// client is idle it has none: see park.go. Answers and events are written by a few goroutines for
// all connections: see flushers. Requests of a connection are answered in their order: a read that
// follows a write waits in the connection's queue until the write is answered, and is
// then served by the applier. The queue is package pending. It outlives the leader: see
// interlude.go.
//
// # Callers
//
// The server makes Clients when it has recovered its state, and then calls Listen; when
// it stops, it calls Refuse and Close. Only the applier calls Answers, with State locked
// for writing. The peer loop calls Kill, StopServing, EndEarlier, Touches and EndReadOnly. All
// other methods may be called from any goroutine.
//
// # Locks
//
// The order is: State, the watch table, the register of connections, a connection, the
// flushers. No goroutine blocks while it holds one of them. An answer takes the connection's lock
// once.
package clients
