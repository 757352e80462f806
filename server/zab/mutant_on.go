//go:build zabmutants

package zab

// active is the active fault. A process tests one fault at a time.
var active Mutant

// SetMutant activates a fault; 0 deactivates it.
func SetMutant(m Mutant) { active = m }

func mutated(m Mutant) bool { return m == active }
