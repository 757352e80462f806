package zab

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// peer is what a core knows about another server. It is created with the first link and
// kept.
type peer struct {
	id  SID
	up  bool
	gen uint64

	// From its Introduction, and derived from it.
	incarnation   ID
	boot, start   uint64
	introduced    bool    // it has introduced itself at least once
	file          Members // the list in its configuration file
	sameFile      bool    // file is the same list as in this server's file
	reported      string  // the last list that was reported to differ
	oldCopy       bool    // its data is an old copy: ignored on this link
	knownPosition uint64  // the position that its log had before
	doubted       uint64  // boot of its process that was last reported to run on an old copy
	refused       bool    // it belongs to another ensemble: ignored on this link
	ignoredFrom   uint64  // since when it is ignored
	syncedHere    bool    // it was synchronized by this server, or the reverse, on this link

	// From its last message.
	promise uint32
	seeded  bool
	damaged bool

	// Election and discovery.
	granted  bool // the pre-vote of this round
	answered bool // it answered the pre-vote, granted or not
	yieldTo  bool // it is a better server, or has a leader, by its last answer to the pre-vote
	promised bool // it promised the epoch asked for
	nacked   bool
	summary  summary // sent with the promise

	room    int // see Core.LinkRoom
	learner     // if this server leads
}

// summary is a server's description of its history, for synchronization.
type summary struct {
	last, commit jute.Zxid
	boot, nonce  uint64
	epochs       []EpochEnd
}

// stale reports whether the summary in m is one that came before, or was sent before one
// that came: nonces rise while a process lives. The sender would not obey an answer, and
// must not be thought to wait for one.
func (s *summary) stale(m *Message) bool { return m.Boot == s.boot && m.Nonce <= s.nonce }

// later reports whether s is later than the summary in m of the same process, which arrived
// late.
func (s *summary) later(m *Message) bool { return m.Boot == s.boot && m.Nonce < s.nonce }

func summaryOf(m *Message) summary {
	return summary{last: m.Zxid, commit: m.Commit, boot: m.Boot, nonce: m.Nonce, epochs: slices.Clone(m.Epochs)}
}

// peer returns the peer with the given id, or nil if there never was a link to it.
func (c *Core) peer(id SID) *peer { return c.byID[id] }

// addPeer returns the peer with the given id and creates it if necessary.
func (c *Core) addPeer(id SID) *peer {
	if p := c.byID[id]; p != nil {
		return p
	}
	p := &peer{id: id}
	c.byID[id] = p
	i, _ := slices.BinarySearchFunc(c.peers, id, func(p *peer, id SID) int { return int(p.id) - int(id) })
	c.peers = slices.Insert(c.peers, i, p)
	return p
}

// linked returns the peer if there is a link to it.
func (c *Core) linked(id SID) *peer {
	if p := c.byID[id]; p != nil && p.up {
		return p
	}
	return nil
}

// counts reports whether a server counts, by its data and its list of members: lost data
// would break the intersection of quorums. In an ensemble it must be admitted with its
// current incarnation. Before there is an ensemble, a server counts that has no data and
// has lost none.
func (c *Core) counts(p *peer) bool {
	if damagedCounted.Planted() || wipedVotes.Planted() || observerCounted.Planted() && !c.voter(p.id) {
		return true
	}
	if p.oldCopy || !c.agreed(p) {
		return false
	}
	if c.log.tip.Seeded() {
		return c.log.admits(Admission{p.id, p.incarnation})
	}
	return !p.seeded && !p.damaged
}

// selfCounts is counts for this server.
func (c *Core) selfCounts() bool { return c.notCountedReason() == "" }

// notCountedReason returns why this server does not count, or "".
func (c *Core) notCountedReason() string {
	switch {
	case c.standalone:
		return ""
	case c.log.tip.Seeded():
		switch {
		case c.log.admits(Admission{c.opt.ID, c.incarnation}):
			return ""
		case c.disowned:
			return "on an old copy of its data, and not admitted again yet"
		case c.damaged:
			return "damaged, and not admitted again yet"
		}
		return "not admitted yet"
	case c.damaged:
		return "damaged"
	case c.knowsSeeded():
		return "without data, unlike others"
	}
	return ""
}

// knowsSeeded reports whether some server has said that it has an ensemble's history.
func (c *Core) knowsSeeded() bool {
	for _, p := range c.peers {
		if p.seeded {
			return true
		}
	}
	return false
}

// noteState records the sender's state that the messages of the phases before the stream carry.
func (c *Core) noteState(p *peer, m *Message) {
	p.promise = max(p.promise, m.Promise)
	p.damaged = m.Flags&FlagDamaged != 0
	if seeded := m.Flags&FlagSeeded != 0; p.seeded != seeded {
		p.seeded = seeded
		c.refresh() // this server may have lost its weight
	}
	c.takeCommit(m)
}

// takeCommit learns from a server of the same ensemble how far the history is committed: if
// both have an entry, they are equal up to it. After a restart with an old hint, a server
// without a leader may need that to know which servers count.
func (c *Core) takeCommit(m *Message) {
	ours := m.Cluster != (ID{}) && m.Cluster == c.log.tip.Init.Cluster
	if !ours || c.leads() || c.follows() || m.Commit <= c.log.committed || !c.log.tip.contains(m.Commit) {
		return
	}
	if c.log.commit(m.Commit) {
		c.hintTo = c.log.committed
		c.refresh()
	}
}

// selfFlags returns the flags that describe this server.
func (c *Core) selfFlags() (f uint16) {
	if c.log.tip.Seeded() {
		f |= FlagSeeded
	}
	if c.damaged && !(c.log.tip.Seeded() && c.selfCounts()) {
		f |= FlagDamaged
	}
	if c.selfCounts() {
		f |= FlagCounts
	}
	if c.log.anchored() {
		f |= FlagAnchored
	}
	return f
}

// post sends a message to a linked peer.
func (c *Core) post(p *peer, m Message) {
	if !p.up || p.refused || p.oldCopy && m.Kind != MsgDoubt {
		return
	}
	switch m.Kind {
	case MsgAppend, MsgAck, MsgCommit:
	default:
		m.Cluster = c.log.settled.Init.Cluster
	}
	c.send = append(c.send, Outgoing{To: p.id, Gen: p.gen, Msg: m})
}
