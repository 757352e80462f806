// Package mirror keeps the data of a future member of an ensemble of zkd while it is a copy of a running
// ensemble, of Apache's or of zkd's, and makes several copies of one of Apache's an ensemble.
//
// The data has the form of a member's, with the ensemble's transactions and their zxids in the log, but no
// server starts with it. A log of Apache's transactions is a function of Apache's history, so all mirrors
// of an ensemble have the same entries: before the first transaction of an epoch there is a marker with the time
// of that transaction, and no leader. A log of zkd's entries has them as they are.
//
// A mirror may have readers: clients in read-only mode, whose sessions exist on their connections only.
// They see the tree, and their requests can't get into the log. The same holds for the HTTP API and the console.
//
// # Goroutines
//
// One goroutine at a time may use a Mirror, but for Durable. It has a goroutine while it writes a
// snapshot, and those of package clients and a ticker for readers.
package mirror
