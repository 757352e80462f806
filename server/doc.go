// Package server implements a zkd server. It assembles the parts, which have their own
// packages: it recovers the state (package data), runs the peer loop, the applier and the snapshotter,
// and serves clients.
//
// # The path of a request
//
//	clients ──── submissions ───▶ loop ─── records ──▶ log writer
//	   ▲                           │ ▲                     │
//	   │                           │ └──── durable ────────┘
//	   │                           └────── committed ─▶ applier ─▶ tree
//	   └───────────── answers and events ────────────────┘
//
// A connection of package clients serves reads from the tree, and hands writes to the
// peer loop, which runs the server's replica: see package replica. The log writer makes
// the replica's records durable. Committed entries go to the applier, which changes the
// tree, sends watch events, and answers the requests of this server's clients.
//
// # Invariants
//
//   - Replies leave a connection in the order of its requests, except for auth, as the
//     protocol requires. A read that follows a pending write of its connection sees that
//     write and none of the connection's later ones.
//   - No client sees a change before it has received the event of a watch that it held on
//     it: events and replies enter one buffer, and the applier appends events while it
//     holds the tree's write lock.
//   - A reply to a write leaves only after the write is durable, committed and applied
//     here.
//   - The server stops reading from a client that does not read its replies, and
//     disconnects a client that lets its watch events pile up.
//
// # Goroutines
//
// The peer loop (loop.go), the log writer (package wal), the applier, the snapshotter,
// the housekeeper, and the cleaner of containers and TTL nodes. Package clients has an
// accept loop for each port, a reader for each connection that is not idle, and a few
// goroutines that write for all connections. docs/dev/internals.md lists all. The methods
// of Server may be called from any goroutine.
package server
