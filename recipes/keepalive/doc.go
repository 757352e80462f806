// Package keepalive keeps an ephemeral node in existence for as long as the program
// wants it there: it comes back after the session has ended and been renewed, and after
// somebody has deleted it. It is what "I am here" is made of: members of groups,
// workers, instances of services.
//
//	node, err := keepalive.New(c, "/workers/w1", keepalive.Options{}) // c has RenewSession
//	if err != nil {
//		return err
//	}
//	if err := node.Start([]byte("idle")); err != nil {
//		return err
//	}
//	defer node.Close(ctx)
//	err = node.WaitThere(ctx) // or go on: the node will come
//	...
//	err = node.SetData(ctx, []byte("busy")) // or Post, which doesn't wait
//
// # Layout on the tree
//
// One ephemeral node at the path, with the data. Options.Protected puts "_c_", a GUID
// and "-" before the name, as Curator's protection does; Options.Sequential has the
// servers append a number as well. Once it has a name it comes back under that.
// Missing nodes above are made as containers. It is the layout of Curator's
// PersistentNode (PersistentEphemeralNode), which keeps nothing else on the tree.
// kazoo and Apache have no such recipe.
//
// # What it guarantees
//
// There are never two nodes of one Node, and none after Close. The data is the newest
// that SetData was given: an older one is never written again once there is a newer
// one, also not by the repetition of a set whose reply was lost (seeds.md C44). The
// goroutine does nothing without knowing what there is, so:
//
//   - Connection lost before or after a request: it looks what has become of the
//     request, and goes on from there.
//   - Session ended: with client.Options.RenewSession the node comes back in the next
//     session. A node of the session before that the servers still have is waited for,
//     not deleted: by the time of the delete it could be somebody else's. Without
//     RenewSession it is over: recipes.ErrLost.
//   - Process paused: as if the session had ended, if the pause was longer than its
//     timeout. Others see the node go and come back.
//   - Leader lost: as connection lost.
//   - Node deleted by somebody: it comes back, or with Options.EndIfDeleted it is over.
//   - Data changed by somebody: left as it is until the next SetData, or until a lost
//     connection has the node looked at.
//   - Another node at the path: if a session other than the client's own ones has made
//     it, or something else in this program, it is over: client.ErrNodeExists. Options.Patient waits for it to go, as a
//     program needs that is started anew before the session of the one before it has
//     ended. A node that is not ephemeral is recipes.ErrLayout in any case.
//
// # What the caller must do
//
// Close the Node before the client, or see to Err and Done. Nobody but this Node
// should change or delete its node: a second program of the same path is told apart,
// but an administrator isn't.
//
// # Cost
//
// A create and a read with a watch to begin with; one write for each SetData that the
// servers had time for; one delete in the end. The watch is one of children, which
// an ephemeral node has none of: it tells of the node's end, and not of its data.
//
// # Goroutines
//
// A Node has one from Start to the end of Close, which owns the node on the tree. If
// the context of Close ends first it goes on until the node is gone or the client is
// closed. All methods may be called from any goroutine.
package keepalive
