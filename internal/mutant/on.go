//go:build zabmutants

package mutant

import "slices"

// Mutant is a fault that can be planted.
type Mutant struct{ name string }

var (
	all     []Mutant // in the order of their declarations
	planted Mutant   // the one that is planted. A process tests one fault at a time.
)

// New declares a fault. Its name must be unique in the program.
func New(name string) Mutant {
	m := Mutant{name}
	if slices.Contains(all, m) {
		panic("two mutants are named " + name)
	}
	all = append(all, m)
	return m
}

// All returns the faults of all packages that the program imports.
func All() []Mutant { return slices.Clone(all) }

// Planted reports whether the fault is planted.
func (m Mutant) Planted() bool { return m == planted }

// Plant plants the fault in place of any other, until remove is called.
func (m Mutant) Plant() (remove func()) {
	planted = m
	return func() { planted = Mutant{} }
}

func (m Mutant) String() string { return m.name }
