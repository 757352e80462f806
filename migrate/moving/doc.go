// Package moving moves the data of stopped servers from Apache ZooKeeper to zkd, and back. The
// commands zkd import and zkd export call it.
//
// # Invariants
//
//   - The state is the same on both sides: znodes with all of their stats, ACLs, sessions with
//     their timeouts, and the last zxid. What can't be moved is refused, or is in the [Report].
//   - Nothing is written into the directories that are read, except that zkd's log is opened for
//     an export as at a start.
//   - A directory that is written is complete, or marked as unfinished.
//
// An import of several servers takes the most advanced one with all of its log, as an election
// would.
package moving
