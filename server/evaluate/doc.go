// Package evaluate decides what a write does: it turns a request into a
// transaction ([datatree.Txn]) of absolute values, which applying only has to
// store. It runs on the leader alone.
//
// The leader accepts a write before the ones that it accepted earlier are
// committed. So the state that decides is not the tree, which holds committed
// transactions, but what the tree will be when everything accepted has been
// applied. The difference is the overlay: for each path that an accepted write
// touched, what the node will be (or that it will be gone). The same holds for
// sessions.
//
// # The overlay
//
// A record describes its node wholly, after the newest accepted write that
// touched it. It is made from the tree when the first such write comes, and
// from then on it is what counts, until [Evaluator.Applied] says that the newest
// write is in the tree. In between the tree may show the node before that write,
// after it, or after a part of several writes; the record is right in each case,
// because nobody but the evaluator changes the future. A path without a record
// has no accepted write that is not in the tree, so the tree is right.
//
// Nothing is ever subtracted: a record is replaced, or dropped when its own
// transaction is in the tree. A multi that fails puts back what it replaced, all
// of it, the parents' records too (their counters number the next sequential
// node).
//
// # Invariants
//
//   - Every request becomes one transaction, except a single write that can't be
//     decoded. A rejected request becomes an error transaction. Neither leaves a
//     trace in the overlay.
//   - The transactions do not depend on how far the tree lags behind, except
//     that quotas are compared with the usage that has been applied, as in
//     ZooKeeper.
//   - A request behind the close of a session with very many ephemerals is not evaluated
//     before that close is applied (Evaluator.Ready): only then the tree says which
//     znodes are gone.
//   - A session that a closeSession was accepted for creates nothing any more, so
//     no ephemeral outlives its session.
//   - The checks of an operation are made in ZooKeeper's order, which clients can
//     see by the error they get (semantics.md section 6).
//
// # Goroutines
//
// The package is pure: the clock is an argument. An Evaluator belongs to one
// goroutine, the leader's. It lives as long as its server leads: what a leader
// accepted and did not commit may be lost, so the next term begins with a new one.
package evaluate
