// Package takeover makes a zkd ensemble of a running ensemble of Apache ZooKeeper. The command
// zkd takeover calls it.
//
// A mirror (see [Mirror]) follows Apache's leader and keeps an exact copy as the data of a member
// to be. When Apache's servers are stopped, [Finish] gives the mirrors what was committed last,
// from the servers' disks, and makes them the members of an ensemble. Before that Apache's
// ensemble decides everything, and a mirror may be stopped or lost at any time.
//
// # Goroutines
//
// A mirror has one goroutine that reads from the leader and writes the copy, and one that writes
// the [Status] into a file. While the first one installs the state of a leader of 3.4, a third one
// sends pings.
package takeover
