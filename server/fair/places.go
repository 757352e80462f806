package fair

import (
	"container/list"
	"slices"
	"sync"
)

// Places are a number of places that others hold for a time, each holder one or more: it is known by its key.
// A place is idle while its holder says that it does nothing with it. Places are safe for concurrent use. The
// zero Places are free.
type Places[K comparable] struct {
	mu    sync.Mutex
	taken list.List // of *Place[K], the oldest first
}

// Place is a place that is held.
type Place[K comparable] struct {
	key    K
	groups []string
	end    func()
	idle   bool
	taken  *list.Element // nil after its holder has given way, or left
}

// Take takes one of most places for a holder with this key and these groups: see Holder. If all are taken,
// a holder that has more gives way, as Displace says: the end of its oldest place is called, once. If there
// is none, the oldest idle place of a group that has most is given up. Take returns nil if there is none
// either, and if more than most are taken, since there were more of them before.
func (p *Places[K]) Take(most int, key K, groups []string, end func()) *Place[K] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken.Len() >= most && (p.taken.Len() > most || !p.displaceLocked(key, groups)) {
		return nil
	}
	x := &Place[K]{key: key, groups: groups, end: end}
	x.taken = p.taken.PushBack(x)
	return x
}

// displaceLocked ends a place for a newcomer, and reports whether there was one.
func (p *Places[K]) displaceLocked(key K, groups []string) bool {
	holders := Count(func(yield func(K, []string) bool) {
		for _, idle := range []bool{true, false} { // of equals, the first gives way
			for e := p.taken.Front(); e != nil; e = e.Next() {
				if x := e.Value.(*Place[K]); x.idle == idle {
					yield(x.key, x.groups)
				}
			}
		}
	})
	of := newScale(holders)
	gives := func(x *Place[K]) bool { return x.idle && slices.ContainsFunc(x.groups, of.largest) }
	if i := Displace(holders, Newcomer(holders, key, groups)); i >= 0 {
		gives = func(x *Place[K]) bool { return x.key == holders[i].Key }
	}
	for e := p.taken.Front(); e != nil; e = e.Next() {
		if x := e.Value.(*Place[K]); gives(x) {
			x.end()
			p.leaveLocked(x)
			return true
		}
	}
	return false
}

// SetIdle says whether the holder of a place does nothing with it at present. At first it is not idle.
func (p *Places[K]) SetIdle(x *Place[K], idle bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x.idle = idle
}

// Leave gives a place back, which may have been given to another holder already.
func (p *Places[K]) Leave(x *Place[K]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaveLocked(x)
}

func (p *Places[K]) leaveLocked(x *Place[K]) {
	if x.taken != nil {
		p.taken.Remove(x.taken)
		x.taken = nil
	}
}

// Len returns how many places are taken.
func (p *Places[K]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken.Len()
}
