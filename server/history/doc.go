// Package history rebuilds the state of a server from a snapshot and the entries after it.
// A server does so when it starts; tools do so with the files of a server that does not run,
// and with backups.
//
// [Load] reads a snapshot, [State.Apply] adds an entry. A [Moment] says how far to go.
package history
