//go:build !race

package trial

// quarter says which of the faults short runs have: those under the race detector have others.
const quarter = 0
