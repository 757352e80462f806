// Package receipt lets changes be done exactly once, as long as the session lives. A
// change is one multi with the create or the versioned set of a receipt, an ephemeral
// node of one's own. If the reply is lost the receipt tells whether it was done,
// whatever others have done meanwhile to what was changed. To look at that instead
// would be wrong: an item that is not there may have been taken already, and a value
// that is there may be somebody else's.
//
// # Invariants
//
//   - A receipt belongs to one session and to one change at a time. Its version counts
//     the changes that were made with it: the next one makes it that of their number.
//   - A change is repeated with the same receipt, and so done once at most, also if
//     what was sent first is done behind what was sent later.
//   - The receipt is the first operation: if another one fails, no attempt was done.
//   - An error that client.IsAmbiguous is that the change may have been done; all others
//     that it was not.
//   - What is no longer of use is deleted, at the latest by Close or with the session.
//
// Nobody else may touch receipts. If somebody does, a change whose reply was lost may be
// in doubt though the session lives; one that was just deleted is replaced.
//
// # Goroutines
//
// A Book has none, and may be used from any.
package receipt
