// Package ensemble asks the members of an ensemble how they are, and describes them in the records of the HTTP API: for
// zkd, which serves these, and for zkcli console.
//
// One goroutine at a time asks them, however many callers there are, and none of them more often than every four seconds.
// Between Start and Close they are asked once a minute at least. Any goroutine may call Look; Start and Close are their owner's.
package ensemble
