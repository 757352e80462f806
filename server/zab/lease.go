package zab

import "math"

// A lease says until when a server may answer clients by itself, without a word
// from anybody. Two things rest on that: a server that is cut off soon stops to answer
// reads from its past, and a leader knows when a server that it lost can have told a
// client for the last time that its session lives. A lease says nothing of how far its
// holder has got: heartbeats overtake entries, so one on a slow link answers from as
// far back as the entries that are on their way.
//
// The leader's lease is LongestLease from the moment at which it sent the
// newest heartbeat that a quorum has answered. The next leader was promised
// its epoch by a server of that quorum, and later; so it knows that no lease of
// an earlier epoch lasts for more than MaxLease from the beginning of its own,
// whatever the settings of the earlier leaders were.
//
// A learner's lease is never longer than its leader's. With a heartbeat it hears
// which of its answers came through, and how much was left of the leader's lease
// then. It had sent that answer before, so from the moment of sending that much is
// its own.
//
// What is left is only said with the heartbeats of Tick: no answer can have been
// sent after the time that the leader then takes for the present, even if it was
// stopped for a while.

// stampBits are the low bits of a stamp, which keep stamps of one ms apart.
const stampBits = 16

// stamp returns a number for a heartbeat, or for an answer to one. It is larger
// than the last one, and tells when it was made, or a little earlier.
func (c *Core) stamp(last uint64) uint64 { return max(last+1, c.now<<stampBits) }

func stampTime(stamp uint64) uint64 { return stamp >> stampBits }

// AnswersUntil returns until when this server may answer by itself, in ms on the
// clock of Tick. It never goes back.
func (c *Core) AnswersUntil() uint64 {
	if c.standalone {
		return math.MaxInt64
	}
	return c.origin + c.lease
}

// MaxLease bounds the leases of all servers, in ms. Learners whose heartbeats come more
// than a third of it apart have none for some of the time: then they ask their leader.
const MaxLease = 2000

// LongestLease is how long the leases that this server gives last at most, in ms. A
// learner's is two heartbeats old when it hears of it, and has to last until the next one.
func (c *Core) LongestLease() uint64 {
	longest := max(c.opt.ElectionTimeout, 6*c.opt.Heartbeat)
	if mutated(unboundedLease) {
		return longest
	}
	return min(longest, MaxLease)
}

// Beat returns the newest heartbeat that this learner has heard of its leader.
func (c *Core) Beat() uint64 { return c.beat }

// BeatTime returns when this leader sent a heartbeat, or a little earlier, in ms
// on the clock of Tick.
func (c *Core) BeatTime(beat uint64) uint64 { return c.origin + min(stampTime(beat), c.now) }

// renewLease finds the newest heartbeat that a quorum has answered.
func (c *Core) renewLease() {
	var newest uint64
	if c.echoed(math.MaxUint64) {
		newest = c.stamp(0) // alone
	}
	for _, p := range c.peers {
		if p.echo > newest && c.echoed(p.echo) {
			newest = p.echo
		}
	}
	if newest != 0 {
		c.lease = max(c.lease, stampTime(newest)+c.LongestLease())
	}
}

// leaseFor returns what to tell a learner of the leader's lease: what is left of
// it, if the learner has answered since it was told.
func (c *Core) leaseFor(p *peer) uint32 {
	if p.pongSeq <= p.leasedSeq || c.lease <= c.now {
		return 0
	}
	p.leasedSeq, p.answersUntil = p.pongSeq, c.lease
	return uint32(c.lease - c.now)
}

// noLease is for heartbeats outside of Tick.
func noLease(*peer) uint32 { return 0 }

// leased takes in what the leader said of its lease.
func (c *Core) leased(m *Message) {
	if m.Ms != 0 {
		c.lease = max(c.lease, stampTime(min(m.Echo, c.pongSeq))+uint64(m.Ms))
	}
}
