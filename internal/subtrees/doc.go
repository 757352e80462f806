// Package subtrees has the rules of subtrees that are kept in memory for many sessions, whose reads and one-shot watches are answered there.
//
// A [Copy] has the nodes of a subtree, which a feed keeps up to date. A [Table] has the watches, and says which event is told when. What
// may be answered to a session are rules of package resume.
//
// # Several subtrees
//
// Each is complete up to its own zxid. What sessions are shown is bounded by the least of these, and an event is told when all subtrees
// have come to its zxid: otherwise an event of another one might be missing before it. So after a change in one subtree the others have to
// catch up: see Lags.
//
// The package is pure. client/cache, edge/memory and the simulator use it.
package subtrees
