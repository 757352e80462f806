package limits

import (
	"net/netip"

	"github.com/zkd-project/zkd/jute"
)

// Groups returns what a client with these identities has in common with others: its address and its
// identities. See package fair.
func Groups(ids []jute.ID) []string {
	list := make([]string, 0, len(ids))
	for _, id := range ids {
		if id.Scheme == "ip" {
			id.ID = Network(id.ID)
		}
		list = append(list, id.Scheme+":"+id.ID)
	}
	return list
}

// Subject is what a client with several identities counts for where it counts once: an identity that
// somebody has issued, or else its address. Anybody can make any number of identities of digest.
type Subject struct {
	ID      jute.ID      // zero for an address of Network
	Network netip.Prefix // see the function Network
}

// subjectOf returns the subject of a client with these identities, and its address.
func subjectOf(ids []jute.ID) (s Subject, address netip.Addr) {
	for i := range ids {
		switch id := &ids[i]; id.Scheme {
		case "ip":
			if s.Network, address = network(id.ID); s.Network == (netip.Prefix{}) {
				s.ID = *id // no address of the Internet
			}
		case "digest":
		default:
			return Subject{ID: *id}, address
		}
	}
	return s, address
}
