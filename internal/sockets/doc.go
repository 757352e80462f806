// Package sockets has what many connections need less of than Go's own: a Set waits for many idle sockets with one goroutine, and a Direct
// writes to a socket what it takes at once, without a goroutine for each.
//
// A goroutine that waits in Read costs its stack and its buffer. A socket in a Set costs an
// entry in the kernel: an epoll instance, which Go's own poller watches as one file. So
// the Set needs no thread for its waiting.
//
// An entry names its connection by a number that is never used again, and not by its
// descriptor, which the system gives to another socket as soon as this one is closed. A
// report that comes too late names a connection that no longer waits, and the caller
// ignores it. A socket that is closed leaves the set by itself.
//
// Only Linux has Sets. Elsewhere NewSet returns errors.ErrUnsupported.
//
// Conns are connections that bring this together, for programs that have no register of their own.
package sockets
