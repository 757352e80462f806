package limits

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Weights say how much of the turns each subject has while there is more to do than can be done. A nil Weights
// gives each the same.
type Weights struct {
	identities map[string]int // by scheme:id, or "*"
	blocks     []weighed      // of addresses, the longest prefix first
	each       int            // of addresses in no block
}

// weighed are addresses that have turns together.
type weighed struct {
	netip.Prefix
	weight int
}

// NewWeights returns the weights that rules give, or nil if they give none.
func NewWeights(rules []Rule) *Weights {
	w := &Weights{identities: make(map[string]int), each: Even}
	some := false
	for _, r := range rules {
		if r.Weight == 0 {
			continue
		}
		some = true
		switch {
		case r.Scope == Identity:
			w.identities[r.Subject] = int(r.Weight)
		case r.Subject == each:
			w.each = int(r.Weight)
		default:
			if prefix, err := parseBlock(r.Subject); err == nil { // ParseRule has checked it
				w.blocks = append(w.blocks, weighed{prefix, int(r.Weight)})
			}
		}
	}
	if !some {
		return nil
	}
	slices.SortStableFunc(w.blocks, func(a, b weighed) int { return b.Bits() - a.Bits() })
	return w
}

// Of returns whose turns a client with these identities waits for, and with which weight. The addresses of a block that has
// a weight have their turns together.
func (w *Weights) Of(ids []jute.ID) (s Subject, weight int) {
	s, address := subjectOf(ids)
	if w == nil {
		return s, Even
	}
	if s.ID != (jute.ID{}) && s.ID.Scheme != "ip" {
		return s, cmp.Or(w.identities[s.ID.Scheme+":"+s.ID.ID], w.identities[each], Even)
	}
	for _, b := range w.blocks {
		if b.Contains(address) {
			s.Network = b.Prefix
			return s, b.weight
		}
	}
	return s, w.each
}
