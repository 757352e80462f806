// Package line is what locks, elections and the like have in common: contenders that stand
// in a line. Each has a place, which is a sequential ephemeral node below one path. The
// numbers that the servers append define the order.
//
// # Invariants
//
//   - Joining creates one place or none, even if the connection breaks. A place that is given
//     up is deleted sooner or later, at the latest with the session.
//   - Each waiter watches one place before it and nothing else. So deleting a place wakes
//     only those that wait for it by the recipe's rule.
//   - A node below the path that is not a place is an error: its meaning is unknown.
//   - Numbers are compared with wrap-around after 2^31-1 (semantics.md).
//
// # Goroutines
//
// A Place and a Hold may be used from any goroutine. A Hold has two goroutines until it is
// stopped or lost.
package line
