// Package transport carries what the servers of an ensemble say to each other:
// one link for each pair of servers, with a lane for control messages and one for
// entries, and streams for snapshots, on connections of their own.
//
// It decides who may speak and keeps links up; what is said is none of its
// business. It knows a [zab.Message] only as something that encodes itself.
//
// # Links
//
// The server with the larger id dials the other one's quorum port. Each peer
// has its own dialer, so one that can't be reached or whose name does not
// resolve delays no other (ZOOKEEPER-900, 3756). Names are resolved at each
// attempt (ZOOKEEPER-1506, 2982, 4708). A server with the smaller id calls: it
// connects, says hello and thereby makes the larger one dial without waiting
// for the end of its back-off.
//
// # A connection
//
// Both sides begin with the eight bytes "zkd-peer" and a hello, a map in
// msgpack behind its length: versions of the protocol, sender, server it wants,
// what the connection is for, 32 random bytes, and the sender's zab.Introduction:
// cluster, incarnation, boot, list of members and so on. Then
// the dialer and after it the acceptor sends a verdict: a refusal with its
// reason, or a proof that it knows the shared secret, which is an HMAC-SHA-256
// over its own role and both hellos. The dialer goes first, so a stranger who
// connects gets nothing that a secret could be guessed from.
//
//	dialer                             acceptor
//	magic hello      ->
//	                 <-     magic hello
//	verdict          ->
//	                 <-         verdict
//	frames           <->         frames
//
// A frame, numbers in network byte order:
//
//	4 bytes   length of what follows
//	1 byte    kind
//	n bytes   body
//	4 bytes   CRC-32C of all before; not over TLS, which has better
//
// The checksum is there because that of TCP, 16 bits, lets one in 65,536
// damaged packets pass, and network gear does damage some.
//
// On a link the kinds are keep-alive, probe, echo, credit, message, message with
// entries, and app frame (its first byte is the caller's kind). On a stream they
// are header, data, end and abort from the dialer, and keep-alive, credit and result
// from the acceptor.
//
// # Lanes
//
// Messages and app frames of the bulk lane have the highest bit of their kind set. One
// with a body of more than 16 KiB is cut: a frame with its length (4) and kind (1), then
// pieces. Between two frames of the bulk lane the writer sends all that waits in the
// control lane.
//
// That alone would not help much: what has been written can't be overtaken any more,
// and sockets, relays and routers buffer megabytes. So the receiver credits the bytes
// of the bulk lane, and of streams, in a frame with their number since the connection
// began (8). It does so at once for frames whose kind has the second highest bit set,
// and otherwise with the next control frame, or after 20 ms. The sender keeps what
// is written and not credited below a window that follows the rate of the way, so that
// bytes are on it for about Options.BulkDelay longer than on an empty one: see pacer.
//
// What waits for the window waits in the link's queue, and would wait there in vain if
// its receiver ceased to need it. So the user asks Room before it sends entries, and
// sends no more.
//
// The shared secret proves who connected. It does not protect what is sent
// afterwards from someone who controls the network: TLS does.
//
// # Invariants
//
//   - PeerUp and PeerDown alternate strictly for each peer. Each gen is used once
//     by the process, and they grow.
//   - Receive and ReceiveApp of a gen come between its PeerUp and its PeerDown. Those
//     of a lane come in the order sent, without a hole: a link loses only a suffix of
//     each lane. What was sent in the bulk lane does not come before what was sent
//     earlier in the control lane; the reverse it may.
//   - A control frame waits for no more than the bulk frame that is being written, and
//     for what the window lets be on its way.
//   - A sender never waits for a credit that does not come: with less on its way than a
//     receiver may leave uncredited for good, it writes the next frame.
//   - What is sent with a gen goes over that link or nowhere.
//   - Send never blocks. A link that can't keep up is cut, not waited for.
//   - Bytes from the network close their own connection at worst
//     (ZOOKEEPER-3769), and a length makes no memory be allocated that does not
//     arrive.
//   - No wait is without end: silence, a full socket and a slow handshake each
//     have their deadline (ZOOKEEPER-3240).
//
// # Goroutines
//
//	listener    one per address         binds, for ever; accepts
//	acceptor    one per accepted conn   handshake; then it is the link's reader, or
//	                                    runs Handler.Stream
//	dialer      one per peer            dials or calls; then it is the link's reader
//	attempt     one per address dialed  ends with the dial
//	writer      one per link            writes what is queued, sends keep-alives
//	pulse       one per stream and end  sends keep-alives
//	await       one per sent stream     waits for the receiver's result
//
// The reader of a link makes all calls of the Handler for it. Everything ends
// before Close returns. Of a link's queues the bulk lane's is bounded by
// Options.QueueBytes, the control lane's by 32 MiB; in between a message that comes in
// pieces is held, of Options.MaxFrame at most. Accepted connections whose handshake is
// not done are bounded by 256, streams of a peer by 8.
package transport
