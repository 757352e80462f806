// Package streams has the rules of many streams on one connection, of which package mux is the sockets and goroutines: what a side makes of the frames that
// come, what it sends, and when the connection takes no more streams and ends. The simulator runs it, too.
//
// A [Side] is one side of a connection. It is given the frames that come and what its user does with the streams, and holds the bytes that are to be
// written. The caller guards it, and all of its streams, by one lock.
package streams
