// Package zab is the core of zkd's atomic broadcast: a pure, deterministic state machine
// that elects a leader, synchronizes its learners, and decides in which order entries are
// logged and when they are committed. Inputs arrive through the methods of Core. Everything
// that follows from them is returned by Take: records to persist, messages to send, and the
// zxid up to which entries may be applied. The server's peer loop passes these to the log
// writer, the links and the applier.
//
// # How it works
//
// A server without a leader asks the others whether they would accept it (pre-vote). If a
// quorum would, it promises itself an epoch above all that it knows, and with durable
// promises from a quorum it leads that epoch. It appends the epoch's marker to its history
// and brings each learner's history up to its own: the learner drops its entries after the
// common point, then receives the entries from there on, or a snapshot first. When a quorum
// has the marker, everything up to it is committed and the leader accepts proposals. From
// then on an entry is committed when it is durable on a quorum. Synchronization and
// broadcast are one stream with one cursor for each learner.
//
// A learner that lags far behind receives a snapshot, on a separate connection. A transfer
// is cancelled only by the end of the link, the end of the leadership, or a change of the
// learner's history. Meanwhile the log after the snapshot is kept (Core.Needs), as long as
// bytes get through (Core.Progress).
//
// Files: core.go has the inputs and Take; election.go the election; leader.go, stream.go
// and commit.go the leader; follower.go the learner; history.go and cache.go the core's
// view of the log; state.go the state of the ensemble that the log carries. lists.go
// decides which list of members counts, sighting.go finds old copies of a log, rival.go
// handles other leaders, introduction.go handles what servers exchange when a link begins.
// founders.go says what servers without a leader wait for. renewal.go, transfer.go, admission.go
// and reads.go each have one topic.
//
// A core without an ensemble is its own quorum: it begins in epoch 0, its first entry is
// zxid 0x1, and every durable entry is committed.
//
// # Invariants
//
//   - handed out <= committed <= appended, and handed out <= durable.
//   - Each entry names its predecessor, and is appended only directly after it. So if two
//     histories have an entry in common, they are equal up to it.
//   - An epoch is promised to one server, and has one leader. Once a server has promised an
//     epoch, it accepts nothing from a lower epoch.
//   - A message that says that something is durable (NEWEPOCH, ACKEPOCH, ACK) is sent only
//     after a PersistDone that covers it.
//   - A committed entry is in the history of each later leader: the leader's quorum and the
//     quorum that has the entry share a server, which would not have promised to a shorter
//     history. This needs two rules. Entries of older epochs are committed only with a
//     marker. A server that lost data counts only after it was admitted again, by an entry
//     that the others committed, and has that admission on its disk; otherwise it could be
//     needed after a restart without knowing that it may vote.
//   - The history's list of members decides about quorums. It changes by an entry that a
//     quorum of the old list and a quorum of the new list commit. While no history has a
//     list, a server counts only the servers whose files have the same list as its own.
//   - A server ignores another server whose log is known to be an old copy. It ends the link after
//     a while (Output.Cut), as whatever it ignores: only the next introduction can change that.
//   - A committed entry is never dropped. A server that is told to drop one halts.
//   - A peer's messages can make the core ignore the peer, restart its synchronization, or
//     halt; they never make it panic.
//
// Check tests the invariants that one core can see; the network of the tests and the
// simulator test those that involve several.
//
// # Order of messages
//
// A link has two lanes. SYNC, APPEND and COMMIT are bulk messages: they arrive in the order
// sent, without gaps. All other messages are control messages, also in order. A control
// message may overtake bulk messages, by as much as a slow link delays these; no bulk
// message overtakes a control message. The consequences:
//
//   - Only COMMIT reveals that messages were lost: it says up to which entry its sender had
//     sent. A PING may arrive before entries that were sent before it.
//   - A PING's commit counts up to the receiver's last entry: while the receiver streams,
//     its history is a prefix of the leader's.
//   - A NEWEPOCH of a renewal, or a REJOIN, may arrive before entries that were sent before
//     it. The receiver drops these: it does not stream until the next SYNC, which comes
//     after them.
//   - A SYNC is obeyed only for the nonce of the newest summary, and a repeated summary
//     keeps its nonce. So a FOLLOW that is sent again while the SYNC is on its way does no
//     harm.
//   - A PONG says that no epoch above the PING's was promised when it was sent, not that
//     anything was received. Leases and read rounds rely on that. A learner with a lease
//     may lag by the entries that are on their way: see lease.go.
//   - A TIMEOUT_NOW names the last entry, which its receiver has acknowledged.
//
// # Goroutines
//
// A Core belongs to one goroutine, the peer loop. It starts no goroutine, reads no clock
// and does no I/O.
package zab
