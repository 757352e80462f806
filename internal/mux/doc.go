// Package mux carries many streams over one connection: those of the clients of an edge, to a server.
//
// The side that connects begins with a greeting that no request of ZooKeeper's protocol and no
// four-letter word begins with, and the other side answers with the same one. A server that does not
// know it ends the connection. After that both send frames:
//
//	kind     1 byte
//	stream   4 bytes, from 1; each number is used once
//	length   4 bytes, of what follows
//
//	open     text: whose stream it is. Only by the side that connects
//	data     bytes of the stream
//	credit   4 bytes: how many more bytes of data the other side may send
//	end      nothing follows from this side; what it is sent is not read
//	pings    4 bytes each: streams whose users have shown that they are there. Only by the side that connects
//	pongs    4 bytes each: those of them that this was enough for
//	unpinged 4 bytes each: those of them that have to say it in their data
//
// A stream is a [net.Conn]. Each side may send Window bytes of a stream that the other side has not read, so a
// stream that nobody reads holds up no other one, and costs no more memory than that. Of a stream that one side has ended, it
// keeps the number until the other side has ended it, too. When the connection fails, so do all streams. One that
// has had no streams for some time, or none that this side has not ended, ends; so does one whose other side causes answers, and
// does not read them.
//
// # Goroutines and locks
//
// What a side makes of frames, and what it sends, are the rules of package streams, which are pure. A Carrier has two goroutines: one writes what
// waits, and the other is the caller of [Carrier.Serve], which reads. A mutex guards the Carrier and its streams. It is held for no I/O, and nothing is
// called with it held, so callers may hold their own locks. All methods but Serve may be called from any goroutine.
package mux
