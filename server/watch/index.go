package watch

// index is a hash set of the ids of records that are stored elsewhere. It uses linear
// probing; each slot has a tag, so that a probe seldom looks at a wrong record. The zero
// index is empty.
//
// A record's hash gives its home slot by the low bits and its tag by the
// topmost seven.
type index struct {
	tags []uint8 // 0 is an empty slot; others have the top bit set
	ids  []uint32
	n    int // ids in the set
}

const minSlots = 8 // a power of two, as is every size

func tagOf(hash uint32) uint8 { return uint8(hash>>25) | 0x80 }

// find returns the slot of the id with this hash for which match is true, or
// -1.
func (x *index) find(hash uint32, match func(id uint32) bool) int {
	if x.n == 0 {
		return -1
	}
	mask, tag := uint32(len(x.tags)-1), tagOf(hash)
	for i := hash & mask; x.tags[i] != 0; i = (i + 1) & mask {
		if x.tags[i] == tag && match(x.ids[i]) {
			return int(i)
		}
	}
	return -1
}

// insert adds an id that is not in the set. hashOf returns the hash of an id in the set.
func (x *index) insert(hash, id uint32, hashOf func(id uint32) uint32) {
	if x.n+1 > len(x.tags)/8*7 {
		x.grow(hashOf)
	}
	x.put(hash, id)
	x.n++
}

func (x *index) put(hash, id uint32) {
	mask := uint32(len(x.tags) - 1)
	i := hash & mask
	for x.tags[i] != 0 {
		i = (i + 1) & mask
	}
	x.tags[i], x.ids[i] = tagOf(hash), id
}

func (x *index) grow(hashOf func(id uint32) uint32) {
	old := *x
	slots := max(minSlots, 2*len(old.tags))
	x.tags, x.ids = make([]uint8, slots), make([]uint32, slots)
	for i, tag := range old.tags {
		if tag != 0 {
			x.put(hashOf(old.ids[i]), old.ids[i])
		}
	}
}

// remove empties a slot that find returned. It moves back the ids after it that could not
// have their home slot, up to the next empty slot: there are no tombstones, so a set does
// not decay however long it changes.
func (x *index) remove(slot int, hashOf func(id uint32) uint32) {
	mask := uint32(len(x.tags) - 1)
	hole := uint32(slot)
	for i := (hole + 1) & mask; x.tags[i] != 0; i = (i + 1) & mask {
		home := hashOf(x.ids[i]) & mask
		if (i-home)&mask < (i-hole)&mask {
			continue // its home is after the hole
		}
		x.tags[hole], x.ids[hole] = x.tags[i], x.ids[i]
		hole = i
	}
	x.tags[hole] = 0
	x.n--
}

// each calls f for every id of the set, in no particular order.
func (x *index) each(f func(id uint32)) {
	for i, tag := range x.tags {
		if tag != 0 {
			f(x.ids[i])
		}
	}
}
