// Package exact has the rules of exactly-once sessions that clients and servers follow alike:
// docs/dev/spec/extensions.md specifies them.
//
// A client numbers the requests of a session 1, 2, 3 and so on, through all its connections.
// The state of the session at the servers has the outcomes of its last writes: of each that the
// client has not confirmed. A client that has lost its connection finds out from these, on the
// next one, what became of each write that it had under way.
//
// The package is pure. Servers, the client and the simulator use it.
package exact
