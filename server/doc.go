// Package server is a zkd server. It puts the parts together that have packages of their
// own: it recovers the state, runs the peer loop, the applier and the snapshotter, and
// serves clients.
//
// # The way of a request
//
//	clients ──── submissions ───▶ loop ─── records ──▶ log writer
//	   ▲                           │ ▲                     │
//	   │                           │ └──── durable ────────┘
//	   │                           └────── committed ─▶ applier ─▶ tree
//	   └───────────── answers and events ────────────────┘
//
// A connection of package clients serves reads from the tree, and hands writes to the
// peer loop, which runs the server's replica: see package replica. The log writer makes
// what the replica says durable. What is committed goes to the applier, which changes the
// tree, sends watch events, and answers the requests of this server's clients.
//
// # Invariants
//
//   - Replies leave a connection in the order of its requests; auth is the
//     exception, which the protocol asks for. A read that follows a pending write of
//     its connection sees that write and none of the connection's later ones.
//   - No client sees a change before it has the event of a watch that it held on
//     it: events and replies enter one buffer, and the applier appends events
//     while it holds the tree's write lock.
//   - A reply to a write leaves only after the write is durable, committed and
//     applied here.
//   - A client that does not read its replies is not read either; one that lets
//     its watch events pile up is cut off.
//
// # Goroutines
//
// The peer loop (loop.go), the log writer (package wal), the applier, the snapshotter,
// the housekeeper, and the cleaner of containers and TTL nodes. Package clients has an
// accept loop and two goroutines for each connection. The methods of Server may be
// called from any goroutine.
package server
