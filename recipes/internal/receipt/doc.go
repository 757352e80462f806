// Package receipt makes changes exactly once while the session lives. A change is one multi
// that also creates, or sets by version, a receipt: an ephemeral node of the session. If the
// reply is lost, the receipt tells whether the change was made, whatever other clients have
// done since. The changed nodes can't tell: an item that is missing may have been taken
// already, and a value that is there may be another client's.
//
// # Invariants
//
//   - A receipt belongs to one session, and to one change at a time. Its version is the
//     number of changes made with it after the first, which creates it.
//   - A change is repeated with the same receipt, so it is made at most once, even if an
//     earlier attempt arrives after a later one.
//   - The receipt is the first operation: if another one fails, no attempt was made.
//   - If an error IsAmbiguous, the change may have been made; otherwise it was not.
//   - Receipts are deleted when they are of no more use: by Close or with the session at the
//     latest.
//
// If somebody deletes a receipt that is in use, a change whose reply was lost may be in doubt
// though the session lives. A receipt that is not in use is replaced.
//
// # Goroutines
//
// There are none. A Book may be used from any goroutine.
package receipt
