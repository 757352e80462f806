// Package memory keeps subtrees that several clients of an edge read, and tells them the events of their watches there.
//
// A [Memory] is that of one identity: a client that speaks for it to the servers, with a cache of each subtree, which a feed keeps up to date. So
// it has what the servers let this identity read, and the servers decide that. It is a client.Memory, which says when a client may be answered
// from it, and gives up where it does not know: a subtree that is not read yet, or whose connection is lost, or that takes more than there is room
// for. The servers are asked then.
//
// Which event is told when, are rules of internal/subtrees.
//
// # Without servers
//
// The subtrees of Options.Stale are kept for when the servers are away: see Absence and SeeLast. Each has a zxid up to which it is complete, and is
// shown as it was then. A sync now and then says that it is current, and has it keep up with what clients have seen.
//
// # Goroutines
//
// One tells clients, and one makes the caches catch up and looks after them; with Options.Stale one more follows the connection, and one keeps these current. The goroutine of a cache calls Changed and Reset, and those of clients
// See and Forget. The locks, in their order: that of a client's session, that of a cache, Memory.mu, and a relay's own.
package memory
