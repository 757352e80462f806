// Package standby keeps a copy of a running ensemble of zkd on servers of another site, and makes them an
// ensemble of their own when an operator decides so. The command zkd standby calls it.
//
// A standby follows the log of any server of the ensemble, over its AdminServer, and has the data of a
// member to be: the same entries with the same zxids. It may have readers. The ensemble does not know of
// it, and waits for nothing of it.
//
// [Promote] ends the copy. The ensemble that begins is another one, with the same tree, sessions and their
// passwords, epochs ahead of the one that it continues: servers of the two refuse each other, and a client
// that has seen the later one is refused by the earlier one.
//
// # Goroutines
//
// A standby has one goroutine that reads the log and writes the copy, those of the mirror, and one that
// writes the [Status] into a file.
package standby
