package fair

import (
	"slices"
	"sync"
)

// Places are a number of places that others hold for a time. It is safe for concurrent use. The zero
// Places are free.
type Places struct {
	mu    sync.Mutex
	taken []*Place // the oldest first
}

// Place is a place that is held.
type Place struct {
	groups []string
	end    func()
}

// Take takes one of most places for a holder with these groups: see Holder. If all are taken, one of those
// gives way whose groups have more, as Displace says: its end is called, once. Take returns nil if none
// does.
func (p *Places) Take(most int, groups []string, end func()) *Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := &Place{groups, end}
	if len(p.taken) >= most {
		holders := make([]Holder[*Place], len(p.taken))
		for i, t := range p.taken {
			holders[i] = Holder[*Place]{t, t.groups, 1}
		}
		i := Displace(holders, Holder[*Place]{x, groups, 0})
		if i < 0 {
			return nil
		}
		p.taken[i].end()
		p.taken = slices.Delete(p.taken, i, i+1)
	}
	p.taken = append(p.taken, x)
	return x
}

// Leave gives a place back, which may have been given to another holder already.
func (p *Places) Leave(x *Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.taken, x); i >= 0 {
		p.taken = slices.Delete(p.taken, i, i+1)
	}
}
