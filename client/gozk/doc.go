// Package zk is the API of github.com/go-zookeeper/zk, version 1.0.4, on package client. A program
// of that library changes one line:
//
//	import "github.com/zkd-project/zkd/client/gozk" // was "github.com/go-zookeeper/zk"
//
// and has, on zkd's servers, writes that are done exactly once. WithOptions and Conn.Client reach
// what that library lacks: TLS with certificates that are renewed, SASL, persistent watches, feeds,
// contexts. A path at the end of the last server is the root of all paths. All names are there that
// go-zookeeper exports, with the same types; TestAPI compares them. Its helpers for tests, such as
// StartTestCluster, are in its test files: see package zktest.
//
// # A lost connection
//
// With go-zookeeper, an operation under way returns ErrConnectionClosed, and the program does not
// know whether it was done. Here, on zkd's servers, it waits for the next connection and returns the
// outcome of its one execution. If there is no connection within the session's timeout, it returns
// ErrConnectionClosed, and may have been done. With Apache's servers it does so at once.
//
// An operation that can't be sent waits for a connection. It returns ErrNoServer, and was not done,
// when no server accepts connections for a second, or none takes the session for the session's timeout.
//
// # Differences
//
//   - Connect begins to connect even if a name has no address yet; go-zookeeper returns the error.
//     Names are looked up again for each connection. With a HostProvider both are as there.
//   - Next of a HostProvider is called for a round over all servers, Len times, and not for each attempt.
//   - Pauses between rounds grow from 20 ms to 2 s. A server has its part of two thirds of the
//     session's timeout to take a session.
//   - The callback of WithEventCallback runs in a separate goroutine, a little after the event, and
//     may use the Conn.
//   - After a login or AddAuth that the servers refuse, the session has ended for good: StateAuthFailed,
//     and ErrAuthFailed of all operations. go-zookeeper connects again, without the identity.
//   - Requests longer than WithMaxConnBufferSize return ErrBadArguments, not ErrShortBuffer. Replies
//     of more than 256 MiB are refused without WithMaxBufferSize, too.
//   - Codes of servers for which go-zookeeper has no error, and makes a text, come as errors of
//     package client.
//   - A Multi takes no CreateRequest with FlagTTL, which go-zookeeper sends as a node without a time to live.
//   - A Lock that fails while it waits deletes its node.
//   - FLWSrvr reads the dates of servers since 3.5, and FLWCons leaves out connections without a session.
//
// # Goroutines
//
// A Conn has those of its client, and one that delivers events until the session is closed.
package zk
