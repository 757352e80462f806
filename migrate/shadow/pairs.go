package shadow

// pairs maps ids of one side to those of the other, one to one. It is bounded: of more than
// 2*most ids the oldest are forgotten.
type pairs[T ~int64] struct {
	most     int
	new, old halves[T]
}

type halves[T ~int64] struct{ apache, zkd map[T]T }

func newPairs[T ~int64](most int) *pairs[T] {
	return &pairs[T]{most: most, new: newHalves[T](), old: newHalves[T]()}
}

func newHalves[T ~int64]() halves[T] { return halves[T]{map[T]T{}, map[T]T{}} }

// of returns the id that matches one of Apache's.
func (p *pairs[T]) of(a T) (z T, ok bool) {
	if z, ok = p.new.apache[a]; !ok {
		z, ok = p.old.apache[a]
	}
	return z, ok
}

// agree reports whether a and z can stand for each other: they do already, or neither
// matches another.
func (p *pairs[T]) agree(a, z T) bool {
	if a == 0 || z == 0 {
		return a == z
	}
	if known, ok := p.of(a); ok {
		return known == z
	}
	known, ok := p.new.zkd[z]
	if !ok {
		known, ok = p.old.zkd[z]
	}
	return !ok || known == a
}

// learn reports whether a and z agree. If so, they stand for each other from now on.
func (p *pairs[T]) learn(a, z T) bool {
	if !p.agree(a, z) {
		return false
	}
	if _, ok := p.new.apache[a]; ok || a == 0 {
		return true
	}
	if len(p.new.apache) >= p.most {
		p.old, p.new = p.new, newHalves[T]()
	}
	p.new.apache[a], p.new.zkd[z] = z, a
	return true
}
