package presence

import "math/rand/v2"

// Policy decides which instance is picked. One goroutine at a time calls it. Providers must
// not share a Policy.
type Policy interface {
	// Pick returns the index of one of the instances. There is at least one, and they
	// are sorted by ID.
	Pick(instances []Instance) int
}

// RoundRobin picks one instance after the other.
func RoundRobin() Policy { return &roundRobin{} }

type roundRobin struct{ last string }

// Pick returns the instance whose ID follows the last one's, which keeps the order when
// instances come and go.
func (r *roundRobin) Pick(instances []Instance) int {
	for i, one := range instances {
		if one.ID > r.last {
			r.last = one.ID
			return i
		}
	}
	r.last = instances[0].ID
	return 0
}

// Random picks any instance.
func Random() Policy { return random{} }

type random struct{}

func (random) Pick(instances []Instance) int { return rand.N(len(instances)) }

// Sticky picks the same instance while it can be picked, and then another one by first.
func Sticky(first Policy) Policy { return &sticky{first: first} }

type sticky struct {
	first Policy
	id    string
}

func (s *sticky) Pick(instances []Instance) int {
	for i, one := range instances {
		if one.ID == s.id {
			return i
		}
	}
	i := s.first.Pick(instances)
	s.id = instances[i].ID
	return i
}
