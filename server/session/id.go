package session

import (
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
)

// IDs makes session ids that no other server makes, nor this one after a
// restart: the top byte is the id of the server, the next 40 bits are the
// milliseconds of its wall clock at the start, the low 16 bits count from 0 and
// carry into the milliseconds. (Apache reads a monotonic clock there, and so
// repeats itself after a reboot.)
//
// Next may be called from any goroutine.
type IDs struct {
	server uint64        // top byte
	next   atomic.Uint64 // its low 56 bits are those of the next id
}

const idCounterBits = 56

// NewIDs returns a generator for the server with this id. nowMs is the time of
// the wall clock in ms since the Unix epoch.
func NewIDs(serverID uint8, nowMs int64) *IDs {
	g := &IDs{server: uint64(serverID) << idCounterBits}
	g.next.Store(uint64(nowMs) << 16)
	return g
}

// Next returns a new id, which is neither 0 nor the smallest int64: the owner of
// a node uses these for "none" and "container". It skips ids for which taken
// returns true; a nil taken skips none.
func (g *IDs) Next(taken func(jute.SessionID) bool) jute.SessionID {
	for {
		n := g.next.Add(1) - 1
		id := jute.SessionID(g.server | n&(1<<idCounterBits-1))
		if o := jute.Owner(id); o == jute.OwnerNone || o.Container() {
			continue
		}
		if taken == nil || !taken(id) {
			return id
		}
	}
}
