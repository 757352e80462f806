// Package mutant plants faults into rules, so that tests can show that they would notice a wrong rule. A package declares its faults, one a line,
//
//	var holderOfTree = mutant.New("holder-of-tree") // holders are looked up in the tree, without what is accepted
//
// and asks for each where the rule stands:
//
//	held := e.over.holds(path)
//	held = held || holderUnchecked.Planted()
//
// The rule reads as if there were no fault, and the fault has a line of its own after it: internal/lint checks the form.
//
// Only builds with the tag zabmutants can plant a fault. In all others Planted is the constant false and a Mutant has no size, so that the compiler removes
// the fault and its name.
package mutant
