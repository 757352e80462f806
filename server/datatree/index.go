package datatree

import (
	"fmt"
	"hash/maphash"
	"math/bits"
)

const (
	bucketBits = 10
	bucketSize = 1 << bucketBits
)

// index finds a child by its parent and name. It is a hash table that grows by linear
// hashing, to one bucket of 4 bytes for each node: an insert splits at most one bucket,
// so none waits for a rehash. The records of a bucket are linked by record.chain.
//
// Invariant: size <= len(buckets)*bucketSize and mask+1 <= size <= 2*(mask+1),
// where mask+1 is a power of two. A record is in bucket hash&(2*mask+1) if
// that is < size, else in bucket hash&mask.
type index struct {
	seed    maphash.Seed
	buckets []*[bucketSize]nodeID
	size    uint32 // buckets in use
	mask    uint32
	count   uint32 // records
}

func newIndex() index {
	return index{
		seed:    maphash.MakeSeed(),
		buckets: []*[bucketSize]nodeID{new([bucketSize]nodeID)},
		size:    bucketSize,
		mask:    bucketSize - 1,
	}
}

// hash returns the hash of the child name of parent.
func (x *index) hash(parent nodeID, name string) uint32 {
	h := maphash.String(x.seed, name) ^ uint64(parent)*0x9e3779b97f4a7c15
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return uint32(h >> 32)
}

// bucket returns the head of the list for hash.
func (x *index) bucket(hash uint32) *nodeID {
	b := hash & (2*x.mask + 1)
	if b >= x.size {
		b = hash & x.mask
	}
	return x.at(b)
}

func (x *index) at(b uint32) *nodeID { return &x.buckets[b>>bucketBits][b&(bucketSize-1)] }

// find returns the child name of parent, or 0.
func (x *index) find(a *arena, parent nodeID, name string) nodeID {
	a.steps.Add(1)
	hash := x.hash(parent, name)
	for id := *x.bucket(hash); id != 0; {
		r := a.rec(id)
		if r.hash == hash && r.parent == parent && int(r.nameLen) == len(name) && r.name() == name {
			return id
		}
		id = r.chain
	}
	return 0
}

// insert adds id, whose record has its parent and name.
func (x *index) insert(a *arena, id nodeID) {
	r := a.rec(id)
	r.hash = x.hash(r.parent, a.name(id))
	x.place(a, id)
}

// place adds id, whose record has its hash, too.
func (x *index) place(a *arena, id nodeID) {
	r := a.rec(id)
	head := x.bucket(r.hash)
	r.chain, *head = *head, id
	x.count++
	if x.count > x.size {
		x.grow(a)
	}
}

func (x *index) remove(a *arena, id nodeID) {
	r := a.rec(id)
	link := x.bucket(r.hash)
	for *link != id {
		if *link == 0 {
			panic(fmt.Sprintf("datatree: node %d is not in the index", id))
		}
		link = &a.rec(*link).chain
	}
	*link, r.chain = r.chain, 0
	x.count--
	for i := 0; i < 4 && x.size > bucketSize && x.count < x.size/4; i++ {
		x.shrink(a)
	}
}

// reserve allocates buckets for n records in an empty index.
func (x *index) reserve(n int) {
	x.size = max(uint32(n), bucketSize)
	x.mask = 1<<(bits.Len32(x.size)-1) - 1
	for len(x.buckets)*bucketSize < int(x.size) {
		x.buckets = append(x.buckets, new([bucketSize]nodeID))
	}
}

// grow adds a bucket and moves the records that belong to it from the one bucket that has
// held them.
func (x *index) grow(a *arena) {
	if x.size == 2*(x.mask+1) {
		x.mask = 2*x.mask + 1
	}
	to := x.size
	if to>>bucketBits == uint32(len(x.buckets)) {
		x.buckets = append(x.buckets, new([bucketSize]nodeID))
	}
	x.size++
	link, head := x.at(to&x.mask), x.at(to)
	for *link != 0 {
		id := *link
		r := a.rec(id)
		if r.hash&(2*x.mask+1) != to {
			link = &r.chain
			continue
		}
		*link, r.chain, *head = r.chain, *head, id
	}
}

// shrink undoes a grow: it merges the last bucket into the one that it was split from.
func (x *index) shrink(a *arena) {
	if x.size == x.mask+1 {
		x.mask >>= 1
	}
	x.size--
	head := x.at(x.size)
	link := x.at(x.size & x.mask)
	for *link != 0 {
		link = &a.rec(*link).chain
	}
	*link, *head = *head, 0
	if x.size&(bucketSize-1) == 0 {
		last := len(x.buckets) - 1
		x.buckets[last] = nil
		x.buckets = x.buckets[:last]
	}
}
