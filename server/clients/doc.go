// Package clients serves the clients of one server: it accepts their connections and
// requests, answers reads from the tree, hands writes over to be ordered, and sends the
// answers and watch events.
//
//	client ── reader ──── read ──── State ─────┐
//	            │                              ├── Buffer ── writer ── client
//	            └─ write ── Backend … Answers ─┘
//
// A connection has one goroutine, its reader, which also writes the replies to reads. While its
// client is idle it has none: see park.go. Answers and events are written by a few goroutines for
// all connections: see flushers. Requests of a connection are answered in their order: a read that
// follows a write waits in the connection's queue until the write is answered, and is
// then served by the applier. These rules are those of package line, of which a connection is the host.
//
// # Parts
//
// A conn connects its parts, and handles requests. Each part has its own fields, and knows neither the conn nor Clients:
//
//	guardedLine   the line with its lock, which the parts share
//	socket        TCP, or TLS above it, and its deadlines
//	frames.Reader cuts the bytes into frames
//	identity      who the client is; login changes it by what the client proves
//	limiter       the rules zkd.limit for this connection
//	batch         writes that the reader has not handed over yet
//	tally         reads that the reader has not counted yet
//	writer        writes the line's buffer to the socket
//	connStats     what operators see of the connection
//
// What the connections share is in shared, in parts as well: the sessions, the rules, [Proofs], the throttler, [Drain], the flushers, the
// feeder and the audit log. Clients has that, the [Ports] and the register of connections.
//
// # Callers
//
// The server makes Clients when it has recovered its state, and then opens the ports; when
// it stops, it calls Refuse and Close. Only the applier calls Answers, with State locked
// for writing. The peer loop calls Kill, StopServing, EndReadOnly and Lines. The housekeeper calls Tick. All
// other methods may be called from any goroutine.
//
// # Locks
//
// The order is: State, a connection, then its socket, the flushers, the watch table, the register of connections and the views.
// The applier delivers an event with the watch table locked, and locks a connection then: it has State locked for
// writing, so no reader that has a connection waits for the table. No goroutine blocks while it holds one of these locks, or
// has two connections locked. An answer takes the connection's lock once.
package clients
