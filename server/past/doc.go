// Package past looks at the past of a server that works: the state of a subtree at a moment, and the changes of nodes.
//
// What there is of the past are bases and entries. Bases are the snapshots of the server, those of an archive, and the beginning of the log; entries
// are in the log, and in the archive. A state is made of the newest base before the moment and of the entries after it, and only of what is in the
// subtree: see [history.Former]. So it takes the time to read these, and the memory for the subtree as it was.
//
// # Goroutines and locks
//
// There are none but the caller's. One caller at a time has the turn, which [Past.Begin] gives; no other lock is held while files are read.
package past
