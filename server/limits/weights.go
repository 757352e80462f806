package limits

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// Weights say how much of the turns each subject has while there is more to do than can be done. A nil Weights
// gives each the same.
type Weights struct {
	identities map[jute.ID]int
	identity   int       // of all others
	blocks     []weighed // of addresses, the longest prefix first
	address    int       // of those in no block
}

// weighed are addresses that have turns together.
type weighed struct {
	netip.Prefix
	weight int
}

// NewWeights returns the weights that rules give, or nil if they give none.
func NewWeights(rules []Rule) *Weights {
	w := &Weights{identities: make(map[jute.ID]int), identity: Even, address: Even}
	some := false
	for _, r := range rules {
		if r.Weight == 0 {
			continue
		}
		some = true
		switch {
		case r.Scope == Identity && r.Subject == each:
			w.identity = int(r.Weight)
		case r.Scope == Identity:
			scheme, id, _ := strings.Cut(r.Subject, ":")
			w.identities[jute.ID{Scheme: scheme, ID: id}] = int(r.Weight)
		case r.Subject == each:
			w.address = int(r.Weight)
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
	switch {
	case w == nil, s == Subject{}: // the servers themselves
		return s, Even
	case s.ID != jute.ID{} && s.ID.Scheme != "ip":
		return s, cmp.Or(w.identities[s.ID], w.identity)
	}
	for _, b := range w.blocks {
		if b.Contains(address) {
			s.Network = b.Prefix
			return s, b.weight
		}
	}
	return s, w.address
}
