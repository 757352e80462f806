//go:build zabmutants

package replica

// active is the fault that was put in. It is meant for one process that tests one
// fault at a time.
var active Mutant

// SetMutant puts a fault in; 0 puts none in.
func SetMutant(m Mutant) { active = m }

func mutated(m Mutant) bool { return m == active }
