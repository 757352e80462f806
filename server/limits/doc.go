// Package limits says what clients may use: connections, sessions, watches, ephemerals, and
// requests, bytes and new connections per second, by identity, by address and by subtree.
//
// A [Rule] has a name, a subject and limits. What is used is counted by meters: one for
// each rule, resource and identity (or address, or subtree). Where several rules with the
// same scope fit, the most specific one that limits the resource counts: a named identity
// before "*", a longer prefix of an address before a shorter one, a deeper subtree before
// a shallower one. Rules of different scopes all count.
//
//	Table ── rules
//	  ├── meters, shared by all that they are about
//	  └── Client, one for each connection ── its meters, by resource
//
// Counts have an upper bound that is cheap to keep, and are counted exactly only when that
// bound reaches a limit: the caller passes a function that does so. Rates are token
// buckets that hold what comes in one second. In an ensemble a server has a share of each rate: see package shares.
//
// A limit is soft or hard. More than a soft one is only counted and reported
// ([Table.Bursts]). More than a hard one is refused, or, for a rate, has to wait.
//
// # Goroutines
//
// The package is pure: times come in. A Table and its meters may be used from any
// goroutine. A Client belongs to one goroutine.
package limits
