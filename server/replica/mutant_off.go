//go:build !zabmutants

package replica

// mutated reports whether a fault has been put in on purpose. Never here: it takes a
// build with the tag zabmutants.
func mutated(Mutant) bool { return false }
