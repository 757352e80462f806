// Package client is a ZooKeeper client. It works with zkd and with Apache
// ZooKeeper 3.5 and later.
//
//	c, err := client.Connect(ctx, "zk1:2181,zk2:2181,zk3:2181/app", client.Options{})
//	if err != nil {
//		return err // says which servers failed, and why
//	}
//	defer c.Close(context.Background())
//	node, err := c.Get(ctx, "/config")
//
// # Session
//
// A Client is a session. The session outlives its connection: when a server or
// the way to it fails, the client connects to another one and goes on, with its
// ephemeral nodes and its watches. What happens meanwhile:
//
//   - Operations that were under way fail with ErrConnectionLoss. IsAmbiguous
//     tells those that may have happened from those that surely have not.
//   - New operations wait for the connection, as long as their context lets them.
//   - If no server is reached within the session's timeout the session counts as
//     expired (see Options.KeepSession). All operations then fail with
//     ErrSessionExpired, unless Options.RenewSession asks for a new session.
//
// State, WaitConnected, States and OnState show where the session is. Don't make
// a new Client because of a lost connection: the one at hand is at it already.
//
// # Order
//
// Operations of one goroutine, and asynchronous ones in the order in which they
// were issued, are done by the servers in that order. Watch events keep their
// place among the replies: by the time that a read returns a change, the events
// that the change fired are in the channels of their watches.
//
// # Ownership
//
// What a call is given is encoded before the call returns, an asynchronous one
// too, and may be changed then. What it returns is the caller's.
//
// # Views
//
// Namespace, WithRetry, InSession, WithInbox and Async return views: cheap values
// that share the session. Closing one closes the session.
//
// # Goroutines
//
// All methods may be called from any goroutine. A client runs three goroutines
// of its own while it is connected, one for callbacks while there are any, and
// one for each call that has left something to be seen to, such as
// DeleteGuaranteed. Close ends them; it waits for all but the callbacks, the last
// of which is told of StateClosed.
package client
