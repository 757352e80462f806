// Package apachelink is the learner's side of the protocol between servers of Apache ZooKeeper,
// 3.4 to 3.9: it follows a running ensemble as an observer. It does no I/O but to read packets
// from a stream: a [Learner] gets the leader's packets, and says what to send, what to make
// durable and which transactions to apply.
//
// # The link
//
//	learner   OBSERVERINFO (accepted epoch; server id)
//	leader    LEADERINFO (its epoch)
//	learner   ACKEPOCH (last zxid)             the epoch is durable
//	leader    DIFF, or SNAP and its state
//	          PROPOSAL, COMMIT, INFORM ...     what the learner lacks
//	          NEWLEADER
//	learner   ACK                              all of it is durable
//	leader    UPTODATE
//	learner   ACK
//	leader    INFORM ..., PING ...
//
// A packet is type (4), zxid (8), data, and a vector of credentials; packets follow each other
// without frames.
//
// # Invariants
//
//   - Everything that a learner passes on is committed, in the order of its zxids, without gaps.
//   - The state of a SNAP is fuzzy: see [apachefiles.Fuzzy]. What the leader sends up to NEWLEADER
//     makes it exact, or up to UPTODATE where it is of 3.4, and only then it is passed on.
//   - A [Copy] is exact. The digest in each transaction has to match.
//   - Whatever a leader sends gives an error or a step, and takes memory in proportion to what
//     it has sent.
package apachelink
