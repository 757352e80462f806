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
// # What to call
//
//   - [Connect] connects to the servers. New does not wait for a connection.
//   - [Client.Create] creates a node; CreateOptions make it ephemeral or sequential.
//   - [Client.Get] reads a node; Exists looks only whether there is one.
//   - [Client.Set] changes a node that has the version which the program has read; so does Delete.
//   - [Client.Children] lists the names of the nodes below a node.
//   - [Client.GetW] reads a node and sets a watch for its next change.
//   - [Client.AddWatch] sets a watch that stays, for a node or for its whole subtree.
//   - [Client.Multi] makes several changes, all of them or none.
//   - [Client.Async] is for hundreds of requests at a time.
//   - [IsAmbiguous] reports whether a change that failed may have been made.
//
// Each has an example. Options.Secure adds TLS, Options.SASL and Options.Auth log in. Locks, elections and
// queues are below package recipes.
//
// # Session
//
// A Client is a session. The session outlives its connection: when a server or the
// network fails, the client connects to another server and keeps its ephemeral nodes
// and its watches. Meanwhile:
//
//   - On zkd's servers, operations that were under way get their outcome on the next
//     connection. On others, and with Options.PlainSession, they fail with ErrConnectionLoss.
//     IsAmbiguous reports whether an operation that failed may have been done.
//   - New operations wait for the connection, as long as their context lets them.
//   - If no server is reached within the session's timeout the session counts as
//     expired (see Options.KeepSession). All operations then fail with
//     ErrSessionExpired, unless Options.RenewSession asks for a new session.
//
// State, WaitConnected and Session.States show the session's state. Do not make a new Client
// because of a lost connection: the client is reconnecting already.
//
// # Order
//
// The servers do the operations of one goroutine in order, and asynchronous ones in the
// order in which they were issued. Watch events keep their place among the replies: when
// a read returns a change, the events that the change fired are in the channels of their
// watches.
//
// # Ownership
//
// A call encodes its arguments before it returns, also an asynchronous one; the caller may
// change them then. Results belong to the caller.
//
// # Views
//
// Namespace, Unrooted, WithRetry, Steady, InSession, WithInbox, Async, Session and Ensemble
// return views: cheap values that share the session. Closing one closes the session.
//
// # Packages above
//
// This package is the protocol. Package settle repeats writes until their outcome is
// known, tree walks and deletes subtrees, typed reads and writes Go values, cache keeps a
// subtree in memory, and sasl authenticates.
//
// # Goroutines
//
// All methods may be called from any goroutine. A client runs two goroutines while it
// is connected, one for callbacks while there are any, and one for each call that has
// left work to Background. Close ends them, and waits for all but the callbacks, the
// last of which reports StateClosed.
package client
