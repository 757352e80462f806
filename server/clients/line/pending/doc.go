// Package pending keeps the requests of a connection from the first one that waits for the
// leader on, and decides what becomes of them when the server stops serving and serves again
// (package replica, service.go). Servers and the simulator use it.
//
// The oldest request of a queue that is not empty is one that waits for the leader: reads are
// answered as soon as they are the oldest.
//
// The package is pure. A Queue is not safe for concurrent use.
package pending
