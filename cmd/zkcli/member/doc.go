// Package member changes the members of an ensemble, for zkcli's command member.
//
// A Change is what the operator asks for. Change.Plan computes the request from the List of
// the present members, without I/O. Runner.Run carries a Change out:
//
//	read the members -> plan -> announce, ask -> wait for new voters -> reconfig
//	       ^                                                              |
//	       +------- another version, a lost connection, not ready yet ----+
//
// # Invariants
//
//   - A request is conditional on the version of the members that it was planned from.
//   - The result is read from the members, never concluded from an error: a change is done
//     when its plan from the present members is empty. So a repeated command, and one whose
//     reply was lost, end well.
//   - Before a request the Runner has announced its tolerance of failures, and has asked if
//     the plan takes tolerance away or removes a server.
//   - A voter that joins is asked for only when it has what the leader had when the wait began.
//
// It uses the operation reconfig, the znode /zookeeper/config and the four-letter words srvr
// and mntr, which Apache's servers have, too.
//
// The package starts no goroutines.
package member
