// Package server is a zkd server: it accepts clients, takes their requests
// through the broadcast into the tree, and answers them.
//
// # The way of a request
//
// A connection's reader cuts frames from the socket. It serves reads itself,
// from the tree, under the tree's read lock. A write goes into the connection's
// queue of pending requests and to the leader, the peer loop, which evaluates it
// against the tree and the writes still under way, and proposes the resulting
// transaction to the core. The core has the log writer make it durable and then
// declares it committed; the applier writes it to the tree, sends watch events,
// and answers the request at the head of the connection's queue and the reads
// waiting behind it.
//
// # Invariants
//
//   - Replies leave a connection in the order of its requests; auth is the
//     exception, which the protocol asks for. A read behind a pending write of
//     its connection sees that write and nothing of the connection's later ones.
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
// For the server: the accept loop, the peer loop (leader.go), the log writer
// (package wal), the applier, the snapshotter, the housekeeper, the cleaner of
// containers and TTL nodes. For each connection: a reader and a writer. The
// methods of Server may be called from any goroutine.
package server
