// Package datatree keeps the replicated state of a server in memory: the znodes, the
// sessions with their ephemerals, and the quotas. It changes only by [Tree.Apply], which
// stores the values of a transaction and decides nothing.
//
// # Layout
//
// A znode is a [record], addressed by a 32-bit id and stored in chunks of 1024. What only
// parents, ephemerals and changed znodes need is in an [extra]. Its name and data share one
// immutable allocation, the [blob]. So the garbage collector sees, for each znode, one pointer
// and one object that it need not scan.
// Siblings form a doubly linked list in the order of their creation, and one hash table
// maps (parent, name) to the child. A create, delete, read or write costs O(depth)
// whatever the fan-out, and nothing is ever rehashed or copied as a whole: the table
// grows one bucket at a time. The children of a znode with many of them are also in a
// [listing], by their names.
//
// # Invariants
//
//   - Apply is total and deterministic: it never fails or panics and reads no clock. An
//     operation that can't be applied (only a bug produces one) is skipped in the same
//     way on each server, and counted in Stats.Skipped.
//   - An ephemeral has no children and its session exists.
//   - extra.descendants is the number of nodes below a node, and extra.below that of the bytes of their data.
//   - The digest is the sum over the contents of the tree, so it depends on the state and
//     not on its history. A tree loaded from a snapshot has the digest of the tree that
//     was frozen.
//   - Blobs are never modified. The result of Data stays valid after the node is deleted.
//   - While a [View] is open, the first change of a node saves its previous version, and
//     a node that is created is noted; a walk that prefers saved versions, passes over new
//     nodes and adds deleted ones sees the tree as it was frozen.
//
// # Goroutines
//
// Tree has no lock; the server owns one RWMutex for it. Methods that read may run
// concurrently under its read lock. Apply, Freeze and View.Close need the write lock,
// View.Step the read lock. The package starts no goroutine and reads no clock; the seed
// of the hash table is its only randomness, and no result depends on it.
package datatree
