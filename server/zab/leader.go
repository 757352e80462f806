package zab

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// leadership is the state of the leader of an epoch.
type leadership struct {
	epoch  uint32    // led or followed
	marker jute.Zxid // begins the epoch
	since  uint32    // the epoch in which this server began to lead
	ledAt  uint64    // when it began to lead, or was stopped for a while

	initDeadline uint64
	pingSeq      uint64 // of the newest heartbeat: a stamp
	nextPing     uint64
	quorumLostAt uint64 // when the linked servers stopped being a quorum; 0 if they are one

	// unconfirmed is the heartbeat that a quorum has to answer before anything more is committed
	// or proposed; 0 for none. See requireConfirmation.
	unconfirmed uint64
	others      rivals

	renewing    bool   // the epoch is being renewed in place
	renewTo     uint32 // renew above this epoch: a joiner promised it to a server that failed
	lastRenewal uint64
	renewed     bool // a renewal has been done

	handingOver  bool
	handTo       SID // the only possible successor; 0 means any
	successor    SID // the server told to take over
	timeoutNowAt uint64
	handDeadline uint64

	admitting      Admission // to be attached to the next proposal; server 0 for none
	admittingAt    uint64
	refusedMembers Members // of a change refused because too few of its servers count
}

// leads reports whether this server is the leader of its epoch, active or not.
func (c *Core) leads() bool { return c.status.Role == SyncingLeader || c.status.Role == Leading }

// proposing reports whether the leader accepts proposals.
func (c *Core) proposing() bool {
	return c.status.Role == Leading && !c.lead.renewing && !c.lead.handingOver && c.lead.unconfirmed == 0
}

// establish begins the epoch that a quorum has promised to this server. The server's
// history becomes the ensemble's when the marker after it is committed. Being on a quorum
// does not commit the older entries, since an entry of an old epoch can still be
// overwritten.
func (c *Core) establish() {
	renewal := c.lead.renewing
	c.lead.renewing = false
	c.lead.epoch = c.promise.Epoch
	c.lead.marker = jute.MakeZxid(c.lead.epoch, 0)
	c.lead.initDeadline = c.now + c.opt.InitLimit
	if c.log.appended.Epoch() < c.lead.epoch {
		c.appendMarker()
	}
	if c.status.Role == Halted {
		return
	}
	if renewal {
		s := c.status
		s.Epoch = c.lead.epoch
		c.setStatus(s)
		c.event(Info, 0, fmt.Sprintf("renewed the epoch: %d", c.lead.epoch))
	} else {
		c.lead.since = c.lead.epoch
		c.beginLeading()
	}
	for _, p := range c.peers {
		switch {
		case p.promised:
			c.synchronize(p)
		case c.sendingSnapshot(p, p.served.last, p.served.epochs):
			c.inviteLearner(p)
		case p.state != learnerNone:
			c.stopLearner(p)
			c.inviteLearner(p)
		}
	}
	c.lead.nextPing = c.now
	c.advanceCommit()
}

// beginLeading initializes a new leader.
func (c *Core) beginLeading() {
	c.setStatus(Status{Role: SyncingLeader, Epoch: c.lead.epoch, Leader: c.opt.ID, Reason: "a quorum promised the epoch"})
	c.lead.ledAt = c.now
	c.lead.quorumLostAt, c.lead.unconfirmed, c.lead.renewTo, c.lead.renewed = 0, 0, 0, false
	c.lead.handingOver, c.lead.successor = false, 0
	c.lead.admitting, c.lead.refusedMembers, c.lead.others = Admission{}, Members{}, rivals{}
	for _, p := range c.peers {
		p.learner = learner{echoedAt: c.now, heardAt: c.now}
	}
}

func (c *Core) appendMarker() {
	m := Marker{Leader: c.opt.ID, Boot: c.opt.Boot, TimeMs: c.wall, Members: c.proposedList()}
	if m.Members != nil || c.log.anchored() && !c.log.tip.Members.Commanded && c.log.tip.Members.Same(&c.opt.Members) {
		m.App = c.opt.Members.Text
	}
	if !c.log.tip.Seeded() {
		m.Init = &c.opt.Init
		m.Admitted = c.founders()
	}
	c.append(Entry{Zxid: c.lead.marker, Prev: c.log.appended, Type: EntryMarker, Data: m.Append(nil)})
}

// founders returns the servers that an ensemble begins with: the voters that promised its
// first epoch.
func (c *Core) founders() (list []Admission) {
	self := Admission{c.opt.ID, c.incarnation}
	for _, p := range c.peers {
		if self.Server != 0 && p.id > self.Server {
			list = append(list, self)
			self.Server = 0
		}
		if p.promised && c.voter(p.id) && c.counts(p) {
			list = append(list, Admission{p.id, p.incarnation})
		}
	}
	if self.Server != 0 {
		list = append(list, self)
	}
	return list
}

// leaveLeading ends the leadership.
func (c *Core) leaveLeading() {
	end := Message{Kind: MsgRejoin, Epoch: c.lead.epoch}
	if c.promise.To != c.opt.ID {
		end.Promise = c.promise.Epoch
	}
	for _, p := range c.peers {
		if p.state != learnerNone {
			c.stopLearner(p)
			c.post(p, end)
		}
		p.learner = learner{}
	}
	c.lead.handingOver, c.lead.unconfirmed = false, 0
	c.lead.admitting = Admission{}
}

// activate makes a leader active when its history is on a quorum and applied here.
func (c *Core) activate() {
	if c.status.Role != SyncingLeader || c.log.committed < c.lead.marker || c.log.applied < c.lead.marker {
		return
	}
	c.setStatus(Status{Role: Leading, Epoch: c.lead.epoch, Leader: c.opt.ID, Reason: "a quorum has its history"})
}

// tickLeader runs the leader's periodic work.
func (c *Core) tickLeader() {
	c.renewLease()
	if c.now >= c.lead.nextPing {
		c.lead.nextPing = c.now + c.opt.Heartbeat
		c.ping(c.leaseFor)
		c.sendCommits()
		c.sendLead()
	}
	if !c.quorumEchoedWithin(c.opt.QuorumTimeout) {
		c.look("no word from a quorum", 1+c.jitter(c.opt.Heartbeat))
		return
	}
	if c.checkLinks(); !c.leads() {
		return
	}
	if c.log.committed < c.lead.marker && c.now >= c.lead.initDeadline {
		c.look("a quorum was not synchronized in time", 1+c.jitter(c.opt.Heartbeat))
		return
	}
	c.startSnapshots() // in place of learners that are gone
	if c.status.Role != Leading {
		return
	}
	c.tickRenewal()
	if c.status.Role == Leading {
		c.tickHandOver()
		c.tickAdmission()
	}
	if c.status.Role == Leading {
		c.tickMembers()
	}
}

// ping sends a heartbeat to all learners, with the value of lease.
func (c *Core) ping(lease func(*peer) uint32) {
	c.lead.pingSeq = c.stamp(c.lead.pingSeq)
	for _, p := range c.peers {
		if p.state == learnerNone {
			continue
		}
		m := Message{Kind: MsgPing, Epoch: c.lead.epoch, Commit: c.log.committed, Seq: c.lead.pingSeq, Echo: p.pongSeq, Ms: lease(p)}
		if gapCheckByPing.Planted() && p.state == learnerStream {
			m.Zxid = p.next
		}
		c.post(p, m)
	}
}

// sendCommits tells learners up to which entry they have been sent, if they have not
// acknowledged it, so that a learner that lacks entries notices.
func (c *Core) sendCommits() {
	for _, p := range c.peers {
		if p.state == learnerStream && p.match < p.next {
			c.sendCommit(p)
		}
	}
}

// sendCommit sends a learner the committed zxid and the last entry sent. The message is ordered
// among the entries.
func (c *Core) sendCommit(p *peer) {
	p.sentCommit = c.log.committed
	c.post(p, Message{Kind: MsgCommit, Epoch: c.lead.epoch, Commit: c.log.committed, Zxid: p.next})
}

func (c *Core) onPong(p *peer, m *Message) {
	if !c.leads() || m.Epoch != c.lead.epoch || p.state == learnerNone || m.Echo > c.lead.pingSeq {
		return
	}
	p.heardAt = c.now
	p.echoedAt = c.now
	p.echo = max(p.echo, m.Echo)
	p.pongSeq = max(p.pongSeq, m.Seq)
	p.diskMs, p.full, p.memory = uint64(m.Ms), m.Flags&FlagFull != 0, m.Boot
	c.sightPosition(p, m.Nonce)
	if m.Zxid != 0 {
		c.acknowledged(p, m)
	}
	if c.lead.unconfirmed != 0 && c.quorumEchoed(c.lead.unconfirmed) {
		c.onConfirmed()
		if !c.leads() {
			return
		}
	}
	c.finishReadRound()
}

// quorumEchoed reports whether a quorum has answered the heartbeat seq or a later one: this
// server was still the leader after it sent that heartbeat.
func (c *Core) quorumEchoed(seq uint64) bool {
	if earlierEchoConfirms.Planted() && seq == c.lead.pingSeq && seq > 0 {
		seq-- // the heartbeat before it, if that was of the same ms
	}
	return c.quorum(func(id SID) bool {
		if id == c.opt.ID {
			return true
		}
		p := c.linked(id)
		return p != nil && p.echo >= seq && c.counts(p)
	})
}

func (c *Core) quorumEchoedWithin(ms uint64) bool {
	return c.quorum(func(id SID) bool {
		if id == c.opt.ID {
			return true
		}
		p := c.peer(id)
		return p != nil && c.now < p.echoedAt+ms && c.counts(p)
	})
}

// checkLinks gives up if the linked followers are no quorum, unless they come back within a
// heartbeat.
func (c *Core) checkLinks() {
	ok := c.quorum(func(id SID) bool {
		if id == c.opt.ID {
			return true
		}
		p := c.linked(id)
		return p != nil && (p.state != learnerNone || c.lead.renewing || p.invited) && c.counts(p)
	})
	switch {
	case ok:
		c.lead.quorumLostAt = 0
	case c.lead.quorumLostAt == 0:
		c.lead.quorumLostAt = max(c.now, 1)
	case c.now >= c.lead.quorumLostAt+c.opt.Heartbeat:
		c.look("lost the links to a quorum", 1+c.jitter(c.opt.Heartbeat/4))
	}
}

// requireConfirmation makes a quorum confirm this leader before it commits or proposes anything more.
func (c *Core) requireConfirmation() {
	c.ping(noLease)
	c.lead.unconfirmed = c.lead.pingSeq
	if c.quorumEchoed(c.lead.unconfirmed) { // no other server is needed
		c.onConfirmed()
	}
}

// Reasons to refuse a change of the members or of the leader.
var (
	ErrNotLeading     = errors.New("this server does not lead")
	ErrMembersPending = errors.New("another change of the members is not committed yet")
	ErrNoQuorum       = errors.New("no quorum of the new members is up to date")
	ErrNotPrepared    = errors.New("the server is no voter, or not up to date")
	ErrBadMembers     = errors.New("the members are not in order, or without a voter")
)

// ProposeMembers appends an entry that changes the members, and returns its zxid. From that
// entry on entries need a quorum of the old and of the new members; once it is committed,
// only the new ones count. Only one change may be under way, and a quorum of the new members
// must be up to date. After ErrNoQuorum try again: meanwhile servers that would become voters
// are admitted if they follow; otherwise a single voter could never get others.
func (c *Core) ProposeMembers(m Members) (jute.Zxid, error) {
	z, ok := c.NextZxid()
	if !ok || c.log.committed < c.lead.marker || c.standalone {
		return 0, ErrNotLeading
	}
	pending := len(c.log.pending) > 0
	pending = pending && !secondChange.Planted()
	if pending {
		return 0, ErrMembersPending
	}
	m.Version, m.TimeMs = z, c.wall
	if err := c.checkMembers(&m); err != nil {
		if err != ErrBadMembers {
			c.lead.refusedMembers = m
		}
		return 0, err
	}
	c.append(Entry{Zxid: z, Prev: c.log.appended, Type: EntryMembers, Data: m.Append(nil)})
	c.refresh()
	return z, nil
}

// checkMembers returns the reason why ProposeMembers would refuse these members, or nil.
func (c *Core) checkMembers(m *Members) error {
	if m.NumVoters() == 0 || new(Members).Decode(m.Append(nil)) != nil {
		return ErrBadMembers
	}
	ready := m.Quorum(c.Ready)
	ready = ready || changeWithoutQuorum.Planted()
	if !ready {
		return ErrNoQuorum
	}
	return nil
}

// LateVoters returns the servers that a list makes voters and that are not ready. Until they
// are, the ensemble tolerates fewer failures.
func (c *Core) LateVoters(list *Members) (late []SID) {
	for i := range list.List {
		if id := list.List[i].ID; list.Voter(id) && !c.members().Voter(id) && !c.Ready(id) {
			late = append(late, id)
		}
	}
	return late
}

// Ready reports whether a server counts, answers, and is nearly up to date, as far as this
// leader knows.
func (c *Core) Ready(id SID) bool {
	if id == c.opt.ID {
		return true
	}
	p := c.linked(id)
	return p != nil && p.synced && c.reliesOn(p) && c.now < p.echoedAt+3*c.opt.Heartbeat &&
		p.next >= c.log.committed && p.inflightBytes < c.opt.WindowBytes/2
}

// Silent returns for how many ms this leader has heard nothing of a server: since its last
// answer to a heartbeat, but not since before this server began to lead.
func (c *Core) Silent(id SID) uint64 {
	if id == c.opt.ID {
		return 0
	}
	heard := c.lead.ledAt
	if p := c.peer(id); p != nil {
		heard = max(heard, p.echoedAt)
	}
	return c.now - min(c.now, heard)
}
