// Package away answers the clients of an edge whose servers are away, as a server without a quorum answers those that accept it: reads by what is
// known, and everything else by jute.ErrNotReadOnly.
//
// # Invariants
//
//   - An answer shows a state that is not older than what the session has seen, this session's earlier answers included.
//   - Its zxid is that of the newest change that the session has seen then. So a server that sets the client's watches again, after this zxid,
//     tells all that they have missed.
//   - What is not known is never shown as missing.
//
// No watch is kept here, as nothing changes: the client sets its watches again when it has a server.
//
// A Session is for one goroutine, and does no I/O.
package away
