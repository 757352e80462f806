// Package transport carries the messages between the servers of an ensemble: one link for
// each pair of servers, with a lane for control messages and one for entries, and streams
// for snapshots, on separate connections.
//
// The package authenticates peers and keeps links up. It does not interpret messages: to
// it, a [zab.Message] is only a value that encodes itself.
//
// # Links
//
// The server with the larger id dials the other one's quorum port. Each peer has a separate
// dialer, so a peer that can't be reached or whose name does not resolve delays no other
// (ZOOKEEPER-900, 3756). Names are resolved at each attempt (ZOOKEEPER-1506, 2982, 4708). A
// server with the smaller id calls: it connects and says hello, which makes the larger one
// dial without waiting for the end of its back-off. If it has moved, it is dialed at the
// addresses in its hello: see Peer.
//
// # A connection
//
// Both sides begin with the eight bytes "zkd-peer" and a hello: its length and a map in
// msgpack. The hello has the versions of the protocol, the sender, the server it wants, the
// purpose of the connection, 32 random bytes, and the sender's zab.Introduction: cluster,
// incarnation, boot, list of members and so on. Then the dialer, and after it the acceptor,
// sends a verdict: a refusal with its reason, or a proof that it knows the shared secret.
// The proof is an HMAC-SHA-256 over the sender's role and both hellos. The dialer goes
// first, so a stranger that connects gets nothing to guess the secret from.
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
// The checksum is needed because TCP's 16-bit checksum misses one in 65,536 damaged
// packets, and some network equipment damages packets.
//
// On a link the kinds are keep-alive, probe, echo, credit, message, message with
// entries, and app frame (its first byte is the caller's kind). On a stream they
// are header, data, end and abort from the dialer, and keep-alive, credit and result
// from the acceptor.
//
// # Lanes
//
// Messages and app frames of the bulk lane have the highest bit of their kind set. A frame
// with a body of more than 16 KiB is cut: a frame with its length (4) and kind (1), then
// pieces. Between two frames of the bulk lane the writer sends everything that waits in the
// control lane.
//
// That alone is not enough: bytes already written can't be overtaken, and sockets, relays
// and routers buffer megabytes. So the receiver credits the bytes of the bulk lane, and of
// streams, in a frame with their number since the connection began (8). It does so at once
// for frames whose kind has the second highest bit set, and otherwise with the next control
// frame, or after 20 ms. The sender keeps the written, uncredited bytes below a window that
// follows the rate of the path, so that they are in flight for about Options.BulkDelay
// longer than on an idle path: see pacer.
//
// Bytes that wait for the window stay in the link's queue, even if the receiver no longer
// needs them. So the user calls Room before it sends entries, and sends no more than that.
//
// The shared secret authenticates the connection. Only TLS protects the data sent
// afterwards from an attacker that controls the network.
//
// # Invariants
//
//   - PeerUp and PeerDown alternate strictly for each peer. Each gen is used once by the
//     process, and gens grow.
//   - Receive and ReceiveApp of a gen come between its PeerUp and its PeerDown. Those of a
//     lane come in the order sent, without gaps: a link loses only a suffix of each lane. A
//     bulk message never arrives before a control message that was sent earlier; the
//     reverse is possible.
//   - A control frame waits only for the bulk frame that is being written, and for the
//     bytes that the window allows in flight.
//   - A sender never waits for a credit that does not come: with less in flight than a
//     receiver may leave uncredited indefinitely, it writes the next frame.
//   - A link comes up only if what this server said of itself on it is still true: Relink ends
//     links, and the admission of a link ends the handshakes that were under way. Both sides do
//     so, and the end of a connection is noticed by both.
//   - A message sent with a gen uses that link or is dropped.
//   - Send never blocks. A link that can't keep up is cut.
//   - Bytes from the network can at worst close their own connection (ZOOKEEPER-3769), and
//     a length field causes at most 2 MiB to be allocated beyond the bytes that arrive.
//   - Every wait ends: silence, a full socket and a slow handshake each have a deadline
//     (ZOOKEEPER-3240).
//
// # Goroutines
//
//	listener    one per address         retries to bind until Close; accepts
//	acceptor    one per accepted conn   handshake; then it is the link's reader, or
//	                                    runs Handler.Stream
//	dialer      one per peer            dials or calls; then it is the link's reader
//	attempt     one per address dialed  ends with the dial
//	writer      one per link            writes what is queued, sends keep-alives
//	pulse       one per stream and end  sends keep-alives
//	await       one per sent stream     waits for the receiver's result
//
// The reader of a link makes all calls of the Handler for it. Everything ends before Close
// returns. A link's bulk queue is bounded by Options.QueueBytes, its control queue by 32
// MiB. The reader also holds one message that arrives in pieces, of at most
// Options.MaxFrame. Accepted connections whose handshake is not done are bounded by 256,
// streams of a peer by 8.
package transport
