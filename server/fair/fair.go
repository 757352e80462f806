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

// Most returns the index of the holder that gives way, or -1 if there are none: the one that weighs
// most, and of equals the first.
//
// The weight of a holder is its amount times that of its heaviest group, with all holders in it. So
// somebody who holds much gives way before those who hold little behind one address, and so does one
// of many connections that hold little each and much together.
func Most[K comparable](holders []Holder[K]) int { return heaviest(groupsOf(holders), holders) }

func heaviest[K comparable](of groups, holders []Holder[K]) int {
	most, heaviest := -1, -1.0
	for i := range holders {
		if w := weight(of, &holders[i]); w > heaviest {
			most, heaviest = i, w
		}
	}
	return most
}

// Displace returns the index of the holder that gives one up to a newcomer, or -1 if the newcomer has to
// wait. A newcomer that holds some already is one of the holders. It must not weigh as much afterwards as
// the other does before, so two never take the same from each other in turns.
func Displace[K comparable](holders []Holder[K], newcomer Holder[K]) int {
	of := groupsOf(holders)
	most := heaviest(of, holders)
	if most < 0 || holders[most].Key == newcomer.Key {
		return -1
	}
	before := weight(of, &holders[most])
	of.add(holders[most].Groups, -1)
	of.add(newcomer.Groups, 1)
	newcomer.Amount++
	if weight(of, &newcomer) >= before {
		return -1
	}
	return most
}

// groups are the amounts of groups.
type groups map[string]int64

func groupsOf[K comparable](holders []Holder[K]) groups {
	of := make(groups)
	for i := range holders {
		of.add(holders[i].Groups, holders[i].Amount)
	}
	return of
}

func (of groups) add(names []string, amount int64) {
	for _, g := range names {
		of[g] += amount
	}
}

// largest returns the amount of the largest group.
func (of groups) largest() (most int64) {
	for _, n := range of {
		most = max(most, n)
	}
	return most
}

// weight returns the weight of a holder.
func weight[K comparable](of groups, h *Holder[K]) float64 {
	heaviest := h.Amount
	for _, g := range h.Groups {
		heaviest = max(heaviest, of[g])
	}
	return float64(h.Amount) * float64(heaviest)
}
