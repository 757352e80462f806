//go:build !zabmutants

package zab

// mutated reports whether a deliberate fault is active. That takes a build with the tag
// zabmutants; here it is always false.
func mutated(Mutant) bool { return false }
