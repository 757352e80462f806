// Package frames cuts what a client sends into requests: a Reader takes the bytes of a connection, and has no more memory than
// has come, and none while the connection is idle. It is used by servers and by edges.
//
// A Reader belongs to the goroutine that reads from the connection.
package frames
