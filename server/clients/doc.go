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
// then served by the applier. These rules are those of package line, of which a connection is the host.
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
// The order is: State, a connection, then the flushers, the watch table, the register of connections and the views.
// The applier delivers an event with the watch table locked, and locks a connection then: it has State locked for
// writing, so no reader that has a connection waits for the table. No goroutine blocks while it holds one of these locks, or
// has two connections locked. An answer takes the connection's lock once.
package clients
