package discovery

import "math/rand/v2"

// Policy decides which instance is picked. A Provider calls it from one goroutine at a
// time; one Policy is not to be shared by several.
type Policy interface {
	// Pick returns the index of one of the instances. There is at least one, and they
	// are sorted by ID.
	Pick(instances []Instance) int
}

// RoundRobin picks one after the other.
func RoundRobin() Policy { return &roundRobin{} }

type roundRobin struct{ last string }

// Pick returns the one whose ID follows the last one's: that is in order also when
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

// Random picks any.
func Random() Policy { return random{} }

type random struct{}

func (random) Pick(instances []Instance) int { return rand.N(len(instances)) }

// Sticky stays with the one that was picked as long as it can be, and then has first
// pick another one.
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
