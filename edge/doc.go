// Package edge is a proxy on the host of ZooKeeper's clients. A client connects to it as to a server,
// unmodified, and the edge holds the client's session with an ensemble: one upstream connection for each. When
// that connection is lost, the edge resumes the session at another server, and the client does not learn of it:
// each write has its one outcome, each read is asked again, and watches tell what they have missed. Where
// that can't be promised, the client's connection ends with the one upstream, as it would have ended without an
// edge: on servers that don't offer exactly-once sessions, such as Apache's, after a login by SASL, and where a server
// has forgotten what persistent watches have missed.
//
// A client's session lives as long as the client pings, and a client that dies is dropped at once, after Options.Grace with its session.
//
// With Options.Identities the edge speaks for each client in the name of its UNIX user, and the servers decide whether it may. Without, clients have its own rights.
//
// While no server is reached, clients that accept a read-only session get one at the edge, which shows them Options.Stale: package away.
//
// An edge can hand its listeners and its clients over to another one: HandOver and Ask. Each client is then continued from a small record of its
// session, as after a lost connection.
//
// For each client in use there are a goroutine that reads from it, one that writes to it while there is something to be written, and those of its
// client.Relay. An idle client has none: package sockets waits for it, and for what the servers send it. One goroutine
// of the edge follows the file of identities. The conn's mutex guards what waits to be written.
package edge
