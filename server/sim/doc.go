// Package sim runs whole ensembles in one goroutine and from one seed. Each server
// is the replica that ships (server/replica, and below it zab, evaluate, session and
// datatree), with a model of its log or the real one. Around them are clients, a
// network and a nemesis that breaks all of it. It checks after each step what must
// always hold.
//
// # How it works
//
// A heap holds events, ordered by virtual time and by the order in which they
// were made. A step is one event: a tick, a message that arrives, a finished
// fsync, something that a client does, a fault. One generator of random numbers
// decides everything else, so the same Config gives the same run: Result.Hash
// tells. Draw makes a Config from a seed: how many servers, which faults, how
// strong, how slow the disks. Many faults are off in each run, since strong ones
// hide subtle ones.
//
// A node does what server/loop.go and server/applier.go do, without goroutines and
// sockets: it hands inputs to the replica, takes its outputs, carries them out one by
// one (a crash may come between any two), applies the orders, and answers clients. It
// decides nothing: no rule of the ordering is written here a second time.
//
// A run has phases. Chaos lasts for Config.Steps steps. Then a quorum is healed
// and must make progress while all others stay broken. Then everything is
// healed, and all servers must come to the same state.
//
// # What is checked
//
// The ghost knows what no server can: every entry ever made, the sequence of
// those committed, what would survive if all machines lost power now. The
// invariants are those of zab.md B.4, and a Failure begins with the id of the
// one that was broken. Those of the replica:
//
//   - R1: a connection is answered in the order of its requests, each once.
//   - R2: the writes of a connection take effect in their order and without a gap.
//   - S3, S6: no session expires before its timeout after the leader has heard of it,
//     nor before the time that an answer has promised to its client.
//   - S7: when a client was told that its session is on a new connection, no write of
//     the old one takes effect any more.
//   - B1: what a leader and the applier hold stays within replica.Limits. B2: when the
//     clients have stopped, nothing is held (Liveness).
//
// The checks cost in proportion to what a step changed.
// The committed sequence is applied to one more tree, the reference: a server's
// digest at a zxid must be the reference's at that zxid, so whatever a server
// shows its clients is right if only its zxid is.
//
// # Disks
//
// The model of a log is a list of records and a mark: those before it are
// durable. After a crash it has a random beginning of the rest. It is quick, and
// most runs use it. In the others the records are written to a real log on a
// simulated file system besides, and what recovery finds there must be possible
// by the model, and counts.
//
// # Mutants
//
// A simulator is worth what it finds. Each mutant is a fault of the core, of the
// replica or of the node that some run must find: see TestMutants.
package sim
