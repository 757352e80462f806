package fair

import (
	"iter"
	"slices"
)

// Holder is a connection, or something like it, that holds a part of what is shared.
type Holder[K comparable] struct {
	Key K
	// Groups are what the holder has in common with others: its address and its identities.
	Groups []string
	Amount int64
}

// Count returns the holders of single parts, in the order of the first part of each.
func Count[K comparable](parts iter.Seq2[K, []string]) (holders []Holder[K]) {
	at := make(map[K]int)
	for key, groups := range parts {
		i, known := at[key]
		if !known {
			i, at[key] = len(holders), len(holders)
			holders = append(holders, Holder[K]{Key: key, Groups: groups})
		}
		holders[i].Amount++
	}
	return holders
}

// Newcomer returns what a holder that wants one more has of what these hold.
func Newcomer[K comparable](holders []Holder[K], key K, groups []string) Holder[K] {
	if i := slices.IndexFunc(holders, func(h Holder[K]) bool { return h.Key == key }); i >= 0 {
		return holders[i]
	}
	return Holder[K]{Key: key, Groups: groups}
}

// Release returns the indexes of the holders that give way, until these have held what is too much: each
// time the one that weighs most of those that are left, and of equals the first.
//
// The weight of a holder is its amount times that of its heaviest group, with all holders in it. So
// somebody who holds much gives way before those who hold little behind one address, and so does one
// of many connections that hold little each and much together.
func Release[K comparable](holders []Holder[K], tooMuch int64) (over []int) {
	s := newScale(holders)
	for tooMuch > 0 && len(over) < len(holders) {
		most := s.heaviest()
		tooMuch -= s.amounts[most]
		s.remove(most)
		over = append(over, most)
	}
	return over
}

// Displace returns the index of the holder that gives one up to a newcomer, or -1 if the newcomer has to
// wait. A newcomer that holds some already is one of the holders. It must not weigh as much afterwards as
// the other does before, so two never take the same from each other in turns.
func Displace[K comparable](holders []Holder[K], newcomer Holder[K]) int {
	s := newScale(holders)
	most := s.heaviest()
	if most < 0 {
		return -1
	}
	before := s.weight(most)
	for _, g := range s.of[most] {
		s.sums[g]--
	}
	after := newcomer.Amount + 1
	heaviest := after
	for _, name := range newcomer.Groups {
		heaviest = max(heaviest, s.sums[s.group(name)]+1)
	}
	if float64(after)*float64(heaviest) >= before {
		return -1
	}
	return most
}

// shareOfFree is how many places one may have for each that is free.
const shareOfFree = 16

// Enters reports whether a holder of some places may take one more, where nobody gives up a place
// for another one. One may have up to 16 times as many as are free, so that whatever one takes, and others
// after it, some places are left for those who have few. Of 16 places and fewer, one may take all. (A. K.
// Choudhury and E. L. Hahne: Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, 1998.)
func Enters(has, free int) bool { return has < shareOfFree*free }

// scale weighs holders, which have the indexes that they have in their list.
type scale struct {
	amounts []int64
	of      [][]int        // their groups, as indexes in sums
	sums    []int64        // the amounts of groups
	groups  map[string]int // by name, the same indexes
}

func newScale[K comparable](holders []Holder[K]) *scale {
	s := &scale{amounts: make([]int64, len(holders)), of: make([][]int, len(holders)), groups: make(map[string]int)}
	for i := range holders {
		s.amounts[i] = holders[i].Amount
		for _, name := range holders[i].Groups {
			g := s.group(name)
			s.of[i] = append(s.of[i], g)
			s.sums[g] += holders[i].Amount
		}
	}
	return s
}

// group returns the index of a group.
func (s *scale) group(name string) int {
	g, known := s.groups[name]
	if !known {
		g = len(s.sums)
		s.groups[name], s.sums = g, append(s.sums, 0)
	}
	return g
}

// remove takes away what a holder has. It is not chosen again.
func (s *scale) remove(i int) {
	for _, g := range s.of[i] {
		s.sums[g] -= s.amounts[i]
	}
	s.amounts[i] = removed
}

const removed = -1

// heaviest returns the holder that weighs most, or -1 if there is none.
func (s *scale) heaviest() int {
	most, heaviest := -1, -1.0
	for i := range s.amounts {
		if w := s.weight(i); w > heaviest && s.amounts[i] != removed {
			most, heaviest = i, w
		}
	}
	return most
}

// largest reports whether no group holds more than the one with a name.
func (s *scale) largest(name string) bool { return s.sums[s.group(name)] == slices.Max(s.sums) }

// weight returns the weight of a holder.
func (s *scale) weight(i int) float64 {
	heaviest := s.amounts[i]
	for _, g := range s.of[i] {
		heaviest = max(heaviest, s.sums[g])
	}
	return float64(s.amounts[i]) * float64(heaviest)
}
