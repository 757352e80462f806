package zab

import "math"

// A lease is the time until which a server may answer clients without asking another
// server. It serves two purposes: a server that is cut off soon stops answering reads from
// old state, and a leader knows when a server that it lost can last have told a client that
// its session is alive. A lease says nothing about how far its holder has caught up:
// heartbeats overtake entries, so a holder on a slow link answers from a state that lacks
// the entries on their way.
//
// The leader's lease is LongestLease from the moment at which it sent the newest heartbeat
// that a quorum has answered. The next leader was promised its epoch later, by a server of
// that quorum. So it knows that no lease of an earlier epoch lasts longer than MaxLease
// from the beginning of its own, whatever the settings of the earlier leaders were.
//
// A learner's lease is never longer than its leader's. A heartbeat tells the learner which
// of its answers arrived, and how much was left of the leader's lease then. The learner
// sent that answer earlier, so its own lease lasts that long from the moment of sending.
//
// Only the heartbeats of Tick carry the remaining time: no answer can have been sent after
// the time that the leader then reads as now, even if the leader was stopped for a while.

// stampBits are the low bits of a stamp, which distinguish stamps of the same ms.
const stampBits = 16

// stamp returns a number for a heartbeat or for an answer to one. It is larger than last,
// and encodes the time of its creation, or a slightly earlier time.
func (c *Core) stamp(last uint64) uint64 { return max(last+1, c.now<<stampBits) }

func stampTime(stamp uint64) uint64 { return stamp >> stampBits }

// AnswersUntil returns the time until which this server may answer by itself, in ms on the
// clock of Tick. It never decreases.
func (c *Core) AnswersUntil() uint64 {
	if c.standalone {
		return math.MaxInt64
	}
	return c.origin + c.lease
}

// MaxLease bounds the leases of all servers, in ms. Learners whose heartbeats come more
// than a third of it apart have no lease for some of the time; they ask their leader then.
const MaxLease = 2000

// LongestLease returns the maximum length of the leases that this server gives, in ms. A
// learner's lease is two heartbeats old when it learns of it, and has to last until the
// next heartbeat.
func (c *Core) LongestLease() uint64 {
	longest := max(c.opt.ElectionTimeout, 6*c.opt.Heartbeat)
	if unboundedLease.Planted() {
		return longest
	}
	return min(longest, MaxLease)
}

// Beat returns the newest heartbeat that this learner has received from its leader.
func (c *Core) Beat() uint64 { return c.following.beat }

// BeatTime returns when this leader sent a heartbeat, or a slightly earlier time, in ms on
// the clock of Tick.
func (c *Core) BeatTime(beat uint64) uint64 { return c.origin + min(stampTime(beat), c.now) }

// renewLease finds the newest heartbeat that a quorum has answered.
func (c *Core) renewLease() {
	var newest uint64
	if c.quorumEchoed(math.MaxUint64) {
		newest = c.stamp(0) // alone
	}
	for _, p := range c.peers {
		if p.echo > newest && c.quorumEchoed(p.echo) {
			newest = p.echo
		}
	}
	if newest != 0 {
		c.lease = max(c.lease, stampTime(newest)+c.LongestLease())
	}
}

// leaseFor returns the rest of the leader's lease to send to a learner, if the learner has
// answered since it was last sent one, and 0 otherwise.
func (c *Core) leaseFor(p *peer) uint32 {
	if p.pongSeq <= p.leasedSeq || c.lease <= c.now {
		return 0
	}
	p.leasedSeq, p.answersUntil = p.pongSeq, c.lease
	return uint32(c.lease - c.now)
}

// noLease is for heartbeats outside of Tick.
func noLease(*peer) uint32 { return 0 }

// extendLease extends this learner's lease by what the leader sent.
func (c *Core) extendLease(m *Message) {
	if m.Ms != 0 {
		c.lease = max(c.lease, stampTime(min(m.Echo, c.following.pongSeq))+uint64(m.Ms))
	}
}
