// Package resume has the rules of a session that continues on one connection after the other without the knowledge of its client. Such is that of an
// edge, to which the client stays connected while the session moves from server to server.
//
// A Session says what is to be sent again, what waits, which zxid the client has seen, and which events it is told and when. So the client sees
// what it would see on one connection that lasts: each request has one answer, in their order; each event of a watch comes once, in their order,
// and before the answers that show what has changed.
//
// # A connection
//
// The program that has the connections calls Connected for each, and then sends, in this order, what RestoreWatches and Replay return, and the requests
// under way by their Fate. Each reply, event and change of a feed that comes is handed to the Session, which returns what is to be told.
//
//   - One-shot watches are set again by a setWatches: servers tell what these have missed before the reply to it. Only this reply says which
//     state these events show, so that they wait for it.
//   - A persistent watch has its events on one connection only. What it misses between two is read from a feed, from what the client has seen
//     on: a replay. What servers send meanwhile waits for its end, and so do the client's requests.
//   - A reply shows what it would have shown on one connection. So a write is not sent while a read before it, whose answer it would change, is
//     under way: such a read can then be asked again.
//
// Signs say when a connection counts as lost because its server is silent.
//
// The package is pure. client.Relay and the simulator use it.
package resume
