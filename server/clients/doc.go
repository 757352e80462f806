// Package clients serves the clients of one server: it takes their connections and
// requests, answers reads from the tree, hands writes over to be ordered, and sends the
// answers and watch events.
//
//	client ── reader ──── read ──── State ────────┐
//	            │                                 ├── out buffer ── client
//	            └─ write ── Backend … Answers ────┘
//
// A connection has two goroutines: its reader, and a writer that begins with the first
// answer or event. Requests of a connection are answered in their order: a read that
// comes after a write waits in the connection's queue until the write is answered, and is
// then served by the applier.
//
// # Who calls what
//
// The server makes Clients when its state is there, calls Listen, and at its end Refuse,
// Drain and Close. The applier is the only caller of Answers, with State locked for
// writing. The peer loop calls Kill, EndService, Touches and EndReadOnly. Everything else
// may be called from any goroutine.
//
// # Locks
//
// In this order: State, the watch table, the register of connections, a connection.
// Nothing blocks while one of them is held. An answer takes the connection's lock once.
package clients
