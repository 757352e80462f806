// Package words fills what a server shows: the show.View that four-letter words and the pages of the
// AdminServer render. Who runs the server brings a view of its parts; this package adds the lists of
// connections, sessions, watches and ephemerals, and the settings.
//
// # Goroutines
//
// There are none. All methods may be called from any goroutine.
package words
