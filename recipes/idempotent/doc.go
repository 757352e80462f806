// Package idempotent makes a change once, however often it is requested: by a program that
// has lost its connection, by one that has died and started again, or by another one that
// takes over its work.
//
//	requests, err := idempotent.New(c, "/app/requests", idempotent.Options{})
//	if err != nil {
//		return err
//	}
//	done, err := requests.Do(ctx, "order-4711",
//		client.CreateOp("/app/orders/item-", order, client.CreateOptions{Mode: client.PersistentSequential}),
//		client.SetOp("/app/stock/apples", stock, version))
//	if done.Before { ... } // by an earlier call
//
// Each request has a name, its id, which a repetition must use again. One multi does the
// operations and creates a marker with that name: if there is a marker, the operations have
// been done.
//
// For a change that no other program repeats, settle.Create, settle.Set and the like, or
// value.Options.Exact, need fewer nodes.
//
// # Layout on the tree
//
//	/app/requests                    container
//	/app/requests/done-order-4711    marker: a GUID of the call that made it
//
// The id follows "done-", percent-encoded as in URLs: all characters except ASCII letters,
// digits, "-", "_", "." and "~". Curator and kazoo have no such recipe; any program that
// makes its changes this way can take part.
//
// # What it guarantees
//
// The operations of an id are done once, all together, or not at all, as long as the
// marker exists.
//
//   - The connection breaks, or the leader is lost: Do sends the request again until the
//     outcome is known.
//   - The session ends: if the client has Options.RenewSession, Do continues. Otherwise it
//     fails, and if client.IsAmbiguous(err), the request may have been done: repeat it with
//     the same id and another client.
//   - The process dies or is stopped: the program that takes over repeats the request with
//     the same id.
//   - An operation fails, for example with client.ErrBadVersion: none is done and there is
//     no marker, so the next call tries again.
//
// # What the caller must do
//
// Derive the id from the request, not from the time: a repetition must have the same one.
// The operations of a repetition are ignored if the marker exists; whether they are the
// same is not checked. Remove old markers: with Prune or Options.TTL when no repetition
// can come any more, or with Forget when the caller has the answer. A repetition after that
// makes the change again.
//
// # Goroutines
//
// There are none. Requests may be used from any goroutine.
package idempotent
