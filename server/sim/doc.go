// Package sim runs whole ensembles in one goroutine, determined by one seed. Each server is
// the production replica (server/replica, and below it zab, evaluate, session and
// datatree), with a model of its log or the real one. Around the servers are clients, a
// network and a nemesis that causes faults. After each step the package checks the
// invariants.
//
// # How it works
//
// A heap holds events, ordered by virtual time and by the order in which they were made. A
// step is one event: a tick, a message that arrives, a finished fsync, an action of a
// client, a fault. One random number generator decides everything else, so the same Config
// gives the same run, as Result.Hash shows. Draw makes a Config from a seed: the number of
// servers, the faults and their strength, the speed of the disks. Many faults are off in
// each run, since strong faults hide subtle ones.
//
// A node does the work of server/loop.go and server/applier.go, without goroutines and
// sockets: it hands inputs to the replica, takes its outputs, carries them out one by one
// (a crash may come between any two), and applies the orders. Clients are answered by the lines
// of servers (server/clients/line): the node hands them requests as their frames have them, and decodes
// the frames that they send as clients do. What a start may do with its directories, which snapshot it
// uses, how far it applies the log and what a purge drops are decisions of package datadirs. The node
// decides nothing: no rule is implemented twice.
//
// A run has phases. Chaos lasts for Config.Steps steps. Then a quorum is healed and must
// make progress while all others stay broken. Finally everything is healed, and all servers
// must reach the same state.
//
// # What is checked
//
// The ghost knows what no server can know: every entry ever made, the sequence of committed
// entries, the data that would survive if all machines lost power now. The invariants are
// those of zab.md B.4, and a Failure begins with the id of the violated one. Those of the
// replica:
//
//   - R1: a connection is answered in the order of its requests, each once.
//
//   - R2: the writes of a connection take effect in their order, each once, and without a gap.
//     Connections outlive leaders, so that holds over changes of the leader, too. At the end
//     everything is answered (Liveness).
//
//   - F1: while a request of a connection waits at the leader, no other connection of its subject has more
//     requests evaluated than it has, by bytes, than replica.Limits.Turn and two requests.
//
//   - F2: the same of subjects, which are addresses here, where the bytes of each count by its weight.
//
//   - B3: a leader proposes the closing of a session only while those that it has proposed, and not
//     applied, are within replica.Limits.Closings.
//
//   - B4: a leader that several subjects wait for proposes a short request only while those that it has proposed so, and not
//     committed, are within replica.Limits.Short.
//
//   - S3, S6: no session expires before its timeout has passed since the leader heard of
//     it or a retirement has ended, nor before the time that an answer has promised to its client.
//
//   - S7: once a session has moved to a new connection, no write of the old one takes
//     effect, and no server that knows of the move answers the old one. A client is told
//     that it has a session only once the history says so.
//
//   - S8: a refused resumption of a session gives it to no connection.
//
//   - S9: a server that knows that a session is global does not answer its client as that of a local one.
//
//   - E1: while the ensemble is retired, nothing is committed but sessions of operators and the end of the retirement. E2: no
//     sync and no write is answered.
//
//   - L5: no connection waits for the next service for longer than an interlude.
//
//   - B1: the bytes that a leader and the applier hold stay within replica.Limits. B2: when
//     the clients have stopped, nothing is held (Liveness).
//
//   - B4: a line sends no event to a client that has not taken more than line.Lines.Unread, beside one reply, and
//     ends for that reason only then.
//
//   - Q1: a write is refused because it can't be evaluated only if the leader panics at it.
//
//   - T1: a leader on which nothing goes wrong stays one, whatever it has to do, in runs where work takes time.
//
//   - M3: what frees memory is not refused for want of memory. When there is memory again, writes are done (Liveness).
//
//   - I23: a server admits no link on which it has shown an incarnation that it has given up since.
//
// The cost of the checks is proportional to the changes of a step. The committed sequence
// is applied to an additional tree, the reference: a server's digest at a zxid must be the
// reference's at that zxid. So a server shows its clients the right state if its zxid is
// right.
//
// # Disks
//
// The model of a log is a list of records and a mark: the records before the mark are
// durable. After a crash the log has a random prefix of the rest. The model is fast, and
// most runs use it. The other runs also write the records to a real log on a simulated file
// system. The state that its recovery finds must be possible in the model, and is used.
//
// In some of these runs a disk has a capacity, which segments and snapshots share, and of which something else takes
// nearly all for a while. The real log waits there, and is purged by the rules of packages wal and datadirs.
//
//   - N1: a log that waits has told of all the records that are durable.
//   - N2: a log does not wait for long if its disk has room for three snapshots, some segments and what is not applied, and
//     nothing else took the room for the first of them.
//   - N3: no snapshot that is to make room is asked for at a zxid at which there is one.
//   - N4: on a full disk one snapshot stays.
//
// Volumes may be missing at a start, and come back or not: server/datadirs decides whether the
// server starts, and operators act on refusals.
//
//   - V1: a server that has all its directories starts.
//   - V2, V3: no log is given up, and no snapshot removed, that may be the last of its kind.
//
// Clients set one-shot and persistent watches, and restore them on another connection.
//
//   - W1: a client that sees a state has had the events of its watches up to there.
//   - W2, W3: an event comes once for each watch, and only for a change that happened.
//   - W4: all events of a persistent watch come, in their order, while the connection lasts.
//
// Some clients follow changes by feeds (package feed), give them credit or let them wait, and begin them again on
// other connections. The ghost has its own list of the changes that committed transactions make.
//
//   - C1: a feed has each change that its client wants and may read, in their order, each once, as it was.
//   - C2: when it says that it is at a zxid, everything up to there has come.
//   - C3: a feed that has once sent everything, and has credit, sends a change before other frames of the
//     connection show it.
//   - C4: it ends only if the server lacks what follows, and says from where on it has all, or if another feed
//     has its place.
//   - C5: it sends nothing without credit. At the end those with credit have everything (Liveness).
//   - C6: it takes one place of its server, from its begin to its end, and a server has no more than it may have.
//   - C8: it is refused only if there is no place, and its client's address has one or each address has no more than
//     one. It ends for another one only if one has its place.
//
// Others follow changes over HTTP, and resume after the last id that they got when their connections break (C1, C4).
//
//   - C7: an id comes with the last change of each transaction, and with no other.
//
// Some clients page through subtrees while others write.
//
//   - P1: the pages of a view show each node of the subtree once, parents first and children in the order of their names,
//     as it was at the view's zxid, which is that of the server when the view was opened.
//   - P2: a view is over when its time is, when too much has changed or its connection has ended, and not before. Another
//     one is refused only while there are as many as there may be.
//
// Some clients have their sessions through an edge, which resumes them by the rules of package resume when a connection to a server is lost, a server or the
// edge is cut off, or the edge hands over to a successor. All checks above see the client's connection with the edge.
//
//   - X1: an edge ends a client's connection only if the session has ended or can't be resumed.
//   - X2: the answer to a write is its one outcome.
//   - X3: no answer shows less than an event before it, or than the client had seen when it asked.
//   - X4: no read shows a later write of its client.
//   - X5: a change is one event for all watches of a client that it fires.
//   - X6: an answer from memory is what servers had at its zxid.
//   - X7: in a read-only session, which clients get of an edge that has had no server for a while, no write and no sync is done, and a read shows what was
//     there at its zxid (package away).
//   - X8: no client waits for a silent server until it gives up: its edge has moved before.
//
// In most of these runs few connections carry the sessions of an edge to a server, by the rules of package streams. They break, stall, say nothing, or take no
// more sessions, and what they carry is read in pieces, late, or not at all.
//
//   - Y1: the bytes of a stream come as they were sent, in their order, each once, and before its end.
//   - Y2: no side breaks the rules of the other one, as to credit and to numbers.
//   - Y3: while nothing is under way on a connection, bytes wait to be sent only of streams whose other side has not read what came before.
//   - Y4: a ping is answered, and counts as heard only if the session's line has heard it.
//   - Y5: then both sides have the same streams. At the end these are those of the sessions that edges have (Liveness).
//   - Y6: an edge opens no stream on a connection that was silent while one waited, or after the server has said that it takes no more.
//   - Y7: a stream that is not read holds no more than its window, and what was not moved.
//   - Y8: a connection that takes no more streams ends none.
//
// # Standbys
//
// In some runs servers at another site copy the ensemble, by the rules of package copies: they follow the log of any server, a
// stale one as well, or that of another standby, get a whole state when a log does not reach back, and crash and come back. The
// log that a server sends is what it has written, up to what it has applied. Only the HTTP around it is not simulated.
//
//   - K1: a copy has the committed history up to its zxid, and the reference's digest there, of which sessions are a part.
//   - K2: it never goes back, but for what a crash takes that was not on its disk.
//   - K3: no stream and no state of another ensemble is sent to it or taken by it.
//   - K4: it says that it has everything of a retired ensemble only when its disk has.
//
// At the end it has everything (Liveness).
//
// In some of these runs the standbys become an ensemble, and the clients continue there: after the other one was
// retired, when they have everything, or after all its servers are lost, and what was not copied with them. The history of the ghost
// continues from there, so that all other invariants hold across the change. Then there are standbys at the old site, which later
// become an ensemble in turn. A standby that was left over keeps its copy of the earlier ensemble, and is refused until operators empty it (K3).
//
//   - K5: the copies that become an ensemble are equal. Of a retired ensemble they have each write; of a lost one operators have given up
//     what they lack.
//   - K6: the ensemble that begins is another one, of which servers and copies of the other are refused, its epochs are ahead of
//     all that the other one may have promised, and it is not retired.
//
// A feed does not continue after a zxid that was given up (C4), and sessions have their full timeout (S6).
//
// # Mutants
//
// Mutants measure what the simulator finds. Each mutant is a fault that some run must find, planted
// into the rule of a server that it breaks, by internal/mutant: see TestMutants. A few are faults of
// the model instead: see mutant.go.
package sim
