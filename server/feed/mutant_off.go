//go:build !zabmutants

package feed

// mutated reports whether a fault is injected. That takes a build with the tag
// zabmutants.
func mutated(Mutant) bool { return false }
