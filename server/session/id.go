package session

import (
	"fmt"
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
)

// IDs generates ids that are unique among servers: the top byte is the id of the server,
// the next 40 bits are the milliseconds of its wall clock at the start, the low 16 bits
// count from 0 and carry into the milliseconds. (Apache reads a monotonic clock there,
// and so repeats ids after a reboot.)
//
// A server does not generate an id twice either, whatever its clock shows at a restart.
// It uses only ids below a durable bound, and after a restart begins at that bound,
// unless the clock is ahead of it.
//
// All methods may be called from any goroutine. Calls of Ahead and Reserved must not
// overlap.
type IDs struct {
	server uint64        // top byte
	next   atomic.Uint64 // its low 56 bits are those of the next id
	bound  atomic.Uint64 // durable; next stays below
}

const (
	idCounterBits = 56
	// reserved is how many ids a bound is ahead of the ids in use: enough for 80 days at
	// 10,000 per second. A start that finds the clock unchanged begins that much further,
	// which is 17 minutes of the clock.
	reserved = 1 << 36
)

// NewIDs returns a generator for the server with this id. nowMs is the time of
// the wall clock in ms since the Unix epoch, bound the last one of earlier starts, or 0.
// Reserved must be called before Next.
func NewIDs(serverID uint8, nowMs int64, bound uint64) *IDs {
	g := &IDs{server: uint64(serverID) << idCounterBits}
	g.next.Store(max(uint64(nowMs)<<16, bound))
	return g
}

// Short reports whether less than half of the reserved ids are left.
func (g *IDs) Short() bool { return g.next.Load()+reserved/2 > g.bound.Load() }

// Ahead returns the bound to make durable next.
func (g *IDs) Ahead() uint64 { return g.next.Load() + reserved }

// Reserved reports that a bound is durable.
func (g *IDs) Reserved(bound uint64) { g.bound.Store(bound) }

// Next returns a new id, which is neither 0 nor the smallest int64: the owner of
// a node uses these for "none" and "container". It skips ids for which taken
// returns true; a nil taken skips none.
func (g *IDs) Next(taken func(jute.SessionID) bool) jute.SessionID {
	for {
		n := g.next.Add(1) - 1
		if bound := g.bound.Load(); n >= bound {
			panic(fmt.Sprintf("session: id %#x, reserved are those below %#x", n, bound))
		}
		id := jute.SessionID(g.server | n&(1<<idCounterBits-1))
		if o := jute.Owner(id); o == jute.OwnerNone || o.Container() {
			continue
		}
		if taken == nil || !taken(id) {
			return id
		}
	}
}
