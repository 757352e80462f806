// Package line is what locks, elections and the like have in common: contenders
// that stand in a line. Each has a sequential ephemeral node, a place, below one
// path; the numbers that the servers append make the order.
//
// # Invariants
//
//   - Joining makes one place or none, whatever breaks; one that is given up is gone
//     sooner or later, at the latest with the session.
//   - Who waits watches one place before it and nothing else. So the end of a place
//     wakes those alone that the rule of the recipe has waiting for that place.
//   - A node below the path that is no place makes it fail: its meaning is unknown.
//   - Numbers are compared as they wrap around after 2^31-1 (semantics.md).
//
// # Goroutines
//
// A Place and a Hold may be used from any goroutine. A Hold has one of its own until
// it is stopped or lost.
package line
