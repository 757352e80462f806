// Package idempotent makes changes that are made once, however often they are asked for:
// by a program that has lost its connection, or that has died and begins anew, or by
// another one that takes its work over.
//
//	requests, err := idempotent.New(c, "/app/requests", idempotent.Options{})
//	if err != nil {
//		return err
//	}
//	done, err := requests.Do(ctx, "order-4711",
//		client.CreateOp("/app/orders/item-", order, client.PersistentSequential, nil),
//		client.SetOp("/app/stock/apples", stock, version))
//	if done.Before { ... } // by an earlier call
//
// The request has a name, its id, which whoever asks again knows. The operations are
// done in one multi that also creates a marker of that name: when there is a marker, they
// have been done.
//
// Where a change is not repeated by anybody else, settle.Create, settle.Set
// and the like, or value.Options.Exact, take fewer nodes.
//
// # Layout on the tree
//
//	/app/requests                    container
//	/app/requests/done-order-4711    marker: a GUID, of the call that has made it
//
// What stands behind "done-" is the id, percent-encoded as in URLs: all but letters and
// digits of ASCII and "-", "_", ".", "~". Curator and kazoo have no such recipe; any
// program that makes its changes this way takes part.
//
// # What it guarantees
//
// The operations of an id are done once, all together, or not at all, as long as its
// marker is kept.
//
//   - The connection breaks before or after a request, or the servers lose their leader:
//     Do asks again until it knows.
//   - The session ends: with Options.RenewSession of the client Do goes on. Without, it
//     fails, and if client.IsAmbiguous(err) it may have been done: ask again with the same
//     id and another client.
//   - The process dies or is stopped: whoever takes over asks again with the same id.
//   - An operation fails, as with client.ErrBadVersion: none is done, and there is no
//     marker: the next call tries again.
//
// # What the caller must do
//
// Take the id from what is asked for, not from the moment: a repeat must have the same.
// A repeat's operations are ignored if the marker is there; that they are the same is not
// checked. Have old markers removed, with Prune or Options.TTL, after a time in which no
// repeat comes any more, or with Forget when whoever asks has the answer: a repeat after
// that is done again.
//
// # Goroutines
//
// Requests have none, and may be used from any.
package idempotent
