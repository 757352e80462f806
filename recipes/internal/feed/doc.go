// Package feed has a value that one goroutine updates and others read or follow.
//
// # Goroutines
//
// There are none. All methods may be called from any goroutine.
package feed
