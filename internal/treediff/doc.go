// Package treediff compares two states of a subtree, and brings one back to the other.
//
// A state is a stream of nodes in tree order: a node comes before its children, siblings in the order of their names' bytes
// (see Compare). So [Diff] holds one node of each state. Paths of nodes are relative to the root of the subtree, which
// is "/" itself: see Join.
//
// A [Reversal] has the differences from a former state, and writes them with conditions: a node that somebody
// has changed since it was compared ends it, and nothing is overwritten.
package treediff
