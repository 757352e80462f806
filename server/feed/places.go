package feed

import "sync/atomic"

// Places bounds how many feeds a server has, and counts them. All sets of the server share it. It is safe
// for concurrent use. The zero Places has room for no feed: call SetLimits.
type Places struct {
	perSet, limit atomic.Int64

	open, refused, compacted atomic.Int64
}

// Usage is what has become of a server's feeds.
type Usage struct {
	Open      int64
	Refused   int64 // for want of a place
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
	return Usage{p.open.Load(), p.refused.Load(), p.compacted.Load()}
}

// Enter takes a place for a reader that is in no set, if there is one. Leave must follow.
func (p *Places) Enter() bool {
	if n, most := p.open.Add(1), p.limit.Load(); most == 0 || n <= most {
		return true
	}
	p.open.Add(-1)
	p.refused.Add(1)
	return false
}

// enterSet is Enter for one more feed in a set that has some.
func (p *Places) enterSet(others int) bool {
	if int64(others) < p.perSet.Load() {
		return p.Enter()
	}
	p.refused.Add(1)
	return false
}

// Leave gives a place back.
func (p *Places) Leave() { p.leave(1) }

func (p *Places) leave(n int) { p.open.Add(int64(-n)) }

// Compacted counts a feed that the history lacks changes for.
func (p *Places) Compacted() { p.compacted.Add(1) }
