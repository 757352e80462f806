// Package zab is the core of zkd's atomic broadcast: a pure, deterministic
// state machine that elects a leader, synchronizes its learners, and decides in
// which order entries are logged and when they are committed. Inputs go in
// through the methods of Core, and everything that follows from them comes out
// through Take: records to persist, messages to send, how far entries may be
// applied. The server's peer loop carries these to the log writer, the links and
// the applier.
//
// # How it works
//
// A server without a leader asks whether the others would accept it (pre-vote),
// promises itself an epoch above all that it knows of, and with a quorum of
// durable promises is that epoch's leader. It appends the epoch's marker behind
// its history and brings each learner's history up to its own: the learner drops
// what it has behind the common point and takes the entries from there on, or a
// snapshot first. When a quorum has the marker, everything up to it is committed
// and the leader accepts proposals. From then on an entry is committed when a
// quorum has it durable. Synchronization and broadcast are one stream with one
// cursor for each learner.
//
// A learner that is far behind gets a snapshot, on a separate connection. Nothing
// calls off a snapshot that is under way but the end of the link or of the leader, or a
// learner whose history has become another one. Meanwhile the log behind it is kept
// (Core.Needs), as long as bytes get through (Core.Progress).
//
// Files: core.go has the inputs and Take; election.go the way to a leader;
// leader.go, stream.go and commit.go what a leader does; follower.go what a
// learner does; history.go and cache.go the log as the core sees it; state.go
// what the log says of the ensemble. lists.go decides which list of members
// counts, sighting.go finds old copies of a log, rival.go deals with other leaders,
// introduction.go with what servers say when a link begins. renewal.go,
// transfer.go, admission.go and reads.go have one thing each.
//
// A core without an ensemble is its own quorum: it begins in epoch 0, its first
// entry is zxid 0x1, and what is durable is committed.
//
// # Invariants
//
//   - handed out <= committed <= appended, and handed out <= durable.
//   - Each entry names its predecessor, and is appended only behind that. So if
//     two histories have an entry in common they are equal up to it.
//   - An epoch is promised to one server, and has one leader. A server accepts
//     nothing of an epoch below the one it promised, from that moment on.
//   - A message that says that something is durable (NEWEPOCH, ACKEPOCH, ACK) is
//     sent only when a PersistDone that covers it has come back.
//   - What is committed is in the history of each later leader: its quorum and
//     the one that has the entry share a server, which would not have promised
//     to a shorter history. For that, entries of older epochs are committed with
//     a marker only, and a server that lost data counts only when it has been
//     admitted again, by an entry that the others committed, and has on its disk
//     that it was: else it could be needed after a restart, and not know that
//     it may vote.
//   - The history's list of members decides about quorums, and changes by an entry
//     that a quorum of the old and of the new list commits. Where no history has a
//     list, a server counts those alone that have its own list in their files.
//   - A server whose log is known to be an old copy is not listened to.
//   - What is committed is never dropped. A server that is told to do so halts.
//   - What a peer sends can make the core ignore it, begin its synchronization
//     again, or halt; it does not panic.
//
// Check tests those that one core can see, the network of the tests and the
// simulator those that take several.
//
// # Order of messages
//
// A link has two lanes. SYNC, APPEND and COMMIT are bulk: they come in the order sent,
// without a hole. All other messages are control messages, in order too: one may
// overtake bulk messages, by as much as a slow link delays these; no bulk message
// overtakes a control message. What rests on that:
//
//   - What was sent and did not come is seen by COMMIT alone, which says how far its
//     sender had sent entries. A PING comes before entries that were sent before it.
//   - A PING's commit counts as far as its receiver has entries: while it streams, its
//     history is a beginning of the leader's.
//   - A NEWEPOCH, of a renewal, or a REJOIN comes before entries that were sent before
//     it. These are dropped: the receiver does not stream until the next SYNC, which
//     comes behind them.
//   - A SYNC is obeyed for the nonce of the newest summary alone, and a summary that is
//     repeated keeps its nonce. So a FOLLOW that overtakes nothing, and is sent again
//     while the SYNC is on its way, does no harm.
//   - A PONG says that no epoch above the PING's was promised when it was sent, not
//     that anything has been received. Leases and read rounds rest on that. A learner
//     with a lease may lag behind by what is on its way: see lease.go.
//   - A TIMEOUT_NOW names the last entry, which its receiver has acknowledged.
//
// # Goroutines
//
// A Core belongs to one goroutine, the peer loop. It starts none, reads no
// clock and does no I/O.
package zab
