// Package evaluate turns a write request into a transaction ([datatree.Txn]) of absolute
// values, which only have to be stored when it is applied. It runs only on the leader.
//
// The leader accepts a write before the earlier accepted ones are committed. So it does
// not decide by the tree, which holds committed transactions, but by the tree as it will
// be after everything accepted has been applied. The difference is the overlay: for each
// path touched by an accepted write, the future state of the node (or that it will be
// gone). The same holds for sessions.
//
// # The overlay
//
// A record describes its node completely, after the newest accepted write that touched
// it. It is made from the tree at the first such write, and takes precedence until
// [Evaluator.Applied] reports that the newest write is in the tree. In between the tree
// may show the node before that write, after it, or after a part of several writes; the
// record is right in each case, because only the evaluator changes the future. A path
// without a record has no accepted write that is not in the tree, so the tree is right.
//
// Nothing is ever subtracted: a record is replaced, or dropped when its own transaction
// is in the tree. A multi that fails restores all the records that it replaced, including
// those of the parents (whose counters number the next sequential node).
//
// # Invariants
//
//   - Every request becomes one transaction, except a single write that can't be decoded.
//     A rejected request becomes an error transaction. Neither changes the overlay.
//   - The transactions do not depend on how far the tree lags, except that quotas are
//     compared with the applied usage, as in ZooKeeper.
//   - A request that follows the close of a session with very many ephemerals is not
//     evaluated before that close is applied (Evaluator.Ready): only then the tree shows
//     which znodes are gone.
//   - A session whose closeSession was accepted creates nothing more, so no ephemeral
//     outlives its session.
//   - The checks of an operation are made in ZooKeeper's order, which clients can observe
//     by the error they get (semantics.md section 6).
//
// # Goroutines
//
// The package is pure: the clock is an argument. An Evaluator belongs to one goroutine,
// the leader's. It lives as long as its server leads: a write that a leader accepted and
// did not commit may be lost, so the next leadership starts with a new one.
package evaluate
