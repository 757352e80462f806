// Package bench puts load on a server of ZooKeeper's client protocol, checks
// each of its replies, and measures it. It is the engine of zkbench.
//
// It brings its own lean client of the protocol, because what a load generator
// costs is taken from the server that it shares a machine with: requests are
// written in batches, replies are checked where they lie in the read buffer,
// and an operation allocates nothing.
//
// # Terms
//
//   - A [Target] is a server or an ensemble under test, with the processes
//     whose CPU time and memory are read from /proc.
//   - A workload is what one run asks of a target; [Config] chooses and sizes it.
//   - The window of a connection is the number of its requests that may be on
//     their way at any time.
//   - A wrong reply is one with an error code, a body of the wrong length, or
//     contents other than what this run itself wrote. Runs with wrong replies
//     fail.
//
// # Invariants
//
//   - Everything that a run writes is below one root node with a name of its
//     own, "zb-" and eight random hex digits. The run deletes it at its end,
//     unless Config.Keep is set.
//   - Each connection writes only keys that no other connection writes, so it
//     knows the version and the contents that every reply must show: a lost,
//     doubled, stale or foreign write is seen in the next reply.
//   - Latency is the time from the write of a request's batch to the end of the
//     read that brought its reply. At a given rate it starts when the request
//     was due, if the window or the socket held it back.
//
// # Goroutines
//
// A connection has two. The reader owns the read buffer, the check of replies
// and the outcome of a job. Sending is done by the goroutine that holds the connection's
// turn: the sender, which starts jobs, paces and pings, or the reader when
// replies have made room. Between them is a ring of outstanding requests. Run
// returns when all of its goroutines are gone.
package bench
