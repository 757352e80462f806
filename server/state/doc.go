// Package state keeps the data of a running server: the tree and the watches on it, under one
// lock.
//
// # Invariants
//   - The applier alone changes the tree. Others read it, and register watches, under the read
//     lock. So no change falls between a reply and the watch that its request sets.
//   - While the lock is free, the tree is at the boundary of a transaction, except while
//     [State.Slicing] returns a channel: a large transaction, or one with very many watchers, is applied
//     in slices, and readers may come between two of them.
//
// # Goroutines
//
// The lock of [State] comes before that of the watches.
package state
