//go:build zabmutants

package datatree

// active is the injected fault. It is meant for one process that tests one fault at a
// time.
var active Mutant

// SetMutant injects a fault; 0 means none.
func SetMutant(m Mutant) { active = m }

func mutated(m Mutant) bool { return m == active }
