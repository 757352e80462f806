// Package feed keeps the recent changes of znodes for clients that follow them.
//
// A [History] has one record for each change of one znode by one transaction, in the order of
// zxids and within a transaction in that of its operations, up to a number of bytes. What is older
// is forgotten: a reader that asks for it gets a [jute.CompactedError] and reads the state again. A
// reader is a [Cursor], a position; so a slow one holds nothing up and costs no memory. A [Feed] is
// the reader for one client on a connection: it chooses, and makes the frames. A [Set] has the feeds of a
// connection, and says which of them precede replies. A [Reader] is what a client without a connection of this
// protocol has, over HTTP.
//
// # Layout
//
// Records are encoded into chunks, as they are sent. A chunk's bytes never move and are only appended
// to, so readers look at records without a lock. ACL lists and the data of znodes are not copied: a
// chunk has tables of those that its records refer to, which the tree shares. The memory of a chunk that nobody has read is
// used again: without feeds, a history makes no garbage.
//
// # Invariants
//
//   - A cursor that started after zxid z yields each change with a greater zxid once, or an error.
//   - Cursor.Zxid is at least z only if all changes of transaction z have been yielded, even if a
//     part of them was added before the others.
//   - A reader says that a transaction ends only when all its changes have been yielded, and says so of each.
//   - A feed that has once sent everything, and had credit since, has sent everything again after Set.CatchUp,
//     unless for credit.
//   - The bytes of all chunks, with the data and the ACL lists that they keep, exceed the limit by less than two chunks and one transaction.
//
// # Goroutines
//
// One goroutine, the applier, calls Add, Wake and Reset. Cursors, readers and feeds may be used by
// other goroutines, each by one at a time.
package feed
