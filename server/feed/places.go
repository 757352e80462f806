package feed

import (
	"math"
	"sync/atomic"

	"github.com/zkd-project/zkd/server/fair"
)

// Places bounds how many feeds a server has, and counts them. All sets of the server share it. It is safe
// for concurrent use. The zero Places has no limit for all, and no room in a set: call SetLimits.
type Places struct {
	// Displaced, if it is set before the first feed, is called when a feed of a set has given way to
	// another one: Next of its set tells the client, and removes it. It must not block.
	Displaced func()

	perSet, limit atomic.Int64

	taken fair.Places[any] // by *Set, or by a key of a reader

	refused, displaced, compacted atomic.Int64
}

// Place is a place that is taken.
type Place = fair.Place[any]

// Usage is what has become of a server's feeds.
type Usage struct {
	Open      int64
	Refused   int64 // for want of a place
	Displaced int64 // ended so that another one could begin
	Compacted int64 // did not begin or ended, since the history lacks changes
}

// SetLimits changes how many feeds a set, and how many all sets and readers together, may have. A limit of
// 0 for all is none. Feeds that are open stay.
func (p *Places) SetLimits(perSet, all int) {
	p.perSet.Store(int64(perSet))
	p.limit.Store(int64(all))
}

// Usage returns the counts.
func (p *Places) Usage() Usage {
	return Usage{int64(p.taken.Len()), p.refused.Load(), p.displaced.Load(), p.compacted.Load()}
}

// Enter takes a place for a reader that is in no set, of a client that has this key and these groups: see
// package fair. If there is none, a client that has more gives way. Enter returns nil if none does. When
// this reader has to give way, end is called, once; it must not block. Leave must follow.
func (p *Places) Enter(key any, groups []string, end func()) *Place {
	most := math.MaxInt
	limit := p.limit.Load()
	limited := limit > 0
	limited = limited && !placesIgnored.Planted()
	if limited {
		most = int(limit)
	}
	if addressIgnored.Planted() {
		groups = nil
	}
	place := p.taken.Take(most, key, groups, func() {
		p.displaced.Add(1)
		end()
	})
	if place == nil {
		p.refused.Add(1)
	}
	return place
}

// enterSet is Enter for one more feed of a set.
func (p *Places) enterSet(s *Set, groups []string, f *Feed) *Place {
	if int64(len(s.feeds)) >= p.perSet.Load() {
		p.refused.Add(1)
		return nil
	}
	return p.Enter(s, groups, func() {
		f.displaced.Store(true)
		if p.Displaced != nil {
			p.Displaced()
		}
	})
}

// Leave gives a place back, which may have been given to another feed already.
func (p *Places) Leave(x *Place) { p.taken.Leave(x) }

// Compacted counts a feed that the history lacks changes for.
func (p *Places) Compacted() { p.compacted.Add(1) }
