// Package frames cuts the bytes of a connection into requests or replies: a Reader has no more memory than has come, and none while the
// connection is idle. Servers, clients, edges and zkbench use it. What gets its bytes otherwise uses Cut.
//
// A Reader belongs to the goroutine that reads from the connection.
package frames
