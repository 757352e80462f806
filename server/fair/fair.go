package fair

// Holder is a connection, or something like it, that holds a part of what is shared.
type Holder[K comparable] struct {
	Key K
	// Groups are what the holder has in common with others: its address and its identities.
	Groups []string
	Amount int64
}

// Most returns the index of the holder that gives way, or -1 if there are none: the one that weighs
// most, and of equals the first.
//
// The weight of a holder is its amount times that of its heaviest group, with all holders in it. So
// somebody who holds much gives way before those who hold little behind one address, and so does one
// of many connections that hold little each and much together.
func Most[K comparable](holders []Holder[K]) int {
	of := groupsOf(holders)
	most, heaviest := -1, -1.0
	for i := range holders {
		if w := weight(of, &holders[i]); w > heaviest {
			most, heaviest = i, w
		}
	}
	return most
}

// Displace returns the index of the holder that gives one up to a newcomer, whose amount is what it
// holds already, or -1 if the newcomer has to wait. It must not weigh as much afterwards as the other
// does before, so two never take the same from each other in turns.
func Displace[K comparable](holders []Holder[K], newcomer Holder[K]) int {
	most := Most(holders)
	if most < 0 || holders[most].Key == newcomer.Key {
		return -1
	}
	before := weight(groupsOf(holders), &holders[most])
	after := make([]Holder[K], 0, len(holders)+1)
	for i, h := range holders {
		if i == most {
			h.Amount--
		}
		if h.Key != newcomer.Key {
			after = append(after, h)
		}
	}
	newcomer.Amount++
	if weight(groupsOf(append(after, newcomer)), &newcomer) >= before {
		return -1
	}
	return most
}

// groups are the amounts of groups.
type groups map[string]int64

func groupsOf[K comparable](holders []Holder[K]) groups {
	of := make(groups)
	for i := range holders {
		for _, g := range holders[i].Groups {
			of[g] += holders[i].Amount
		}
	}
	return of
}

// weight returns the weight of a holder.
func weight[K comparable](of groups, h *Holder[K]) float64 {
	heaviest := h.Amount
	for _, g := range h.Groups {
		heaviest = max(heaviest, of[g])
	}
	return float64(h.Amount) * float64(heaviest)
}
