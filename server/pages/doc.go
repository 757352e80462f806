// Package pages answers what the pages of the AdminServer ask of a server: what it shows, its health, snapshots,
// and streams of its log and of changes. [Handler] puts the pages, the HTTP API and the console together, for a server
// or for a copy of another ensemble. The sender of a request may see what a client with the same
// identities may.
//
// # Goroutines
//
// There are none: a page is the goroutine of its HTTP request.
package pages
