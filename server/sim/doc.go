// Package sim runs whole ensembles in one goroutine and from one seed: the
// core of replication, the log, the tree, the evaluator and the sessions of
// each server, with clients, a network and a nemesis that breaks all of it. It
// checks after each step what must always hold.
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
// A node is what the server is, without its goroutines and sockets: it hands
// inputs to the core, takes its outputs, carries them out one by one (a crash
// may come between any two), and answers clients.
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
// one that was broken. The checks cost in proportion to what a step changed.
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
// A simulator is worth what it finds. Each mutant is a fault of the core, or of
// the node, that some run must find; see TestMutants.
package sim
