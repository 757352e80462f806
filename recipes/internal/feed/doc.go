// Package feed is a value that one goroutine keeps and others look at, or follow: they
// get the newest, and are told when there is a newer one.
//
// # Goroutines
//
// All methods may be called from any goroutine. A Feed has none of its own.
package feed
