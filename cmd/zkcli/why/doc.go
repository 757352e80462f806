// Package why finds out what is wrong with an ensemble from what its servers say, and what
// to do about it.
//
// It is pure: Find computes findings from Facts. The command zkcli why collects the facts
// and prints the findings. Each finding has an id, which is the anchor of its section in
// docs/why.md.
package why
