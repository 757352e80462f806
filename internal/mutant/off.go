//go:build !zabmutants

package mutant

// Mutant is a fault that a build with the tag zabmutants can plant.
type Mutant struct{}

// New declares a fault.
func New(string) Mutant { return Mutant{} }

// Planted reports whether the fault is planted. Without the tag it never is.
func (Mutant) Planted() bool { return false }
