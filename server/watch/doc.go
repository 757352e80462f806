// Package watch keeps one server's table of watches and determines the watchers of an
// event. It does no I/O: Trigger names the watchers, and the caller appends the event to
// their out buffers.
//
// A watch belongs to a connection, here a [Watcher], and is removed when that closes. It
// has one of four modes (semantics.md section 9):
//
//	mode                 set by                         fires on                     stays
//	Data                 getData, exists                created, deleted, changed    no
//	Child                getChildren, getChildren2      children changed, deleted    no
//	Persistent           addWatch                       all four, of its path        yes
//	PersistentRecursive  addWatch                       created, deleted, changed,   yes
//	                                                    of its path and all below
//
// The modes of one watcher on one path are independent, as in Apache 3.9
// (ZOOKEEPER-4466): adding, firing or removing one leaves the others alone.
//
// Apache keeps two tables, "data" (Data, Persistent and PersistentRecursive) and
// "child" (Child and Persistent); its counts are by table, and so are those of
// [Table.Summary] and [Table.Count].
//
// # Invariants
//
//   - A watch of mode Data or Child fires at most once: Trigger removes it
//     before it returns, whatever the type of the event.
//   - One Trigger names a watcher at most once, however many of its watches
//     match. So do the parts of one Firing, which is a Trigger in parts.
//   - The table owns its strings: a path may alias a buffer that is reused
//     after the call.
//   - A path is in a relation if and only if it has a watcher there; a watch
//     is in its path's list and in its watcher's set.
//
// # Layout
//
// Each mode is one [relation] between paths and watchers. A path with one watcher names it;
// with more, each watch is a link of 16 bytes in a slab, in the doubly linked list of its
// path. The ids of a watcher's watches are in its hash set. So firing,
// adding and removing a watch cost O(1) however many others share its path or its
// watcher, and closing a connection costs its own watches, with the lock released after
// each thousand of them. (A set is copied when it
// doubles, so one connection with a million watches makes others wait for some
// milliseconds a few times.) Only the paths are separate heap objects. The memory of
// removed watches is kept for later ones.
//
// # Goroutines
//
// Table is safe for concurrent use; one mutex guards it. Its place in the lock order is
// tree, watch table, connection's out buffer: watches are added under the tree's read
// lock, triggered under its write lock, and Trigger calls deliver with the table locked.
// Therefore deliver must not block and must not call the table. Drop waits for a running
// Trigger: after Drop has returned, its handle is no longer named and can be given to
// another connection.
package watch
