package zab

import "github.com/zkd-project/zkd/jute"

// barriers are requests for a point after everything that was completed before. The leader
// takes its committed zxid, and then a quorum confirms, by a heartbeat sent later, that it
// still leads; otherwise another leader may already have committed more (ZOOKEEPER-1675).
// Requests that come while a heartbeat is under way wait for the next one.
type barriers struct {
	asked     []question // for the next heartbeat
	inRound   []question // for readRound
	readRound uint64     // the heartbeat under way; 0 for none

	// On a learner: its own ids are forwarded to the leader in batches.
	forward  []uint64
	forwards []forwarded
	batches  uint64
}

// question is a request by this server, if peer is 0, or by a learner.
type question struct {
	peer  SID
	gen   uint64
	id    uint64
	index jute.Zxid
}

// forwarded is a batch of ids that was sent to the leader.
type forwarded struct {
	batch uint64
	ids   []uint64
	at    uint64
}

// ReadIndex asks for a point after everything that was completed before. The answer comes
// in Output.Reads with the same id, at the latest when the role changes.
func (c *Core) ReadIndex(id uint64) {
	switch {
	case c.status.Role == Leading:
		c.ask(question{id: id})
	case c.status.Role == Following:
		c.barriers.forward = append(c.barriers.forward, id)
	default:
		c.reads = append(c.reads, ReadResult{ID: id})
	}
}

// ask queues a question at the leader.
func (c *Core) ask(q question) {
	q.index = c.log.committed
	decides := c.standalone
	decides = decides || readWithoutRound.Planted()
	if decides {
		c.answer(q, true)
		return
	}
	if readRoundTooEarly.Planted() && c.barriers.readRound != 0 {
		c.barriers.inRound = append(c.barriers.inRound, q)
		return
	}
	c.barriers.asked = append(c.barriers.asked, q)
}

func (c *Core) answer(q question, ok bool) {
	if q.peer == 0 {
		c.reads = append(c.reads, ReadResult{ID: q.id, OK: ok, Index: q.index})
		return
	}
	p := c.linked(q.peer)
	if p == nil {
		return
	}
	earlier := p.gen != q.gen
	earlier = earlier && !oldLinkAnswered.Planted()
	if earlier {
		return // the question was of an earlier link, perhaps of an earlier process that numbered its questions alike
	}
	m := Message{Kind: MsgReadIndexResp, Epoch: c.lead.epoch, Seq: q.id, Commit: q.index}
	if ok {
		m.Flags = FlagGranted
	}
	c.post(p, m)
}

// startReadRound sends a heartbeat for the waiting questions.
func (c *Core) startReadRound() {
	if len(c.barriers.asked) == 0 || c.barriers.readRound != 0 || c.status.Role != Leading {
		return
	}
	c.barriers.asked, c.barriers.inRound = c.barriers.inRound[:0], c.barriers.asked
	c.ping(noLease)
	c.barriers.readRound = c.lead.pingSeq
	c.finishReadRound()
}

// finishReadRound answers when a quorum has confirmed the heartbeat.
func (c *Core) finishReadRound() {
	if c.barriers.readRound == 0 || !c.quorumEchoed(c.barriers.readRound) {
		return
	}
	c.barriers.readRound = 0
	for _, q := range c.barriers.inRound {
		c.answer(q, true)
	}
	c.barriers.inRound = c.barriers.inRound[:0]
	c.startReadRound()
}

func (c *Core) onReadIndex(p *peer, m *Message) {
	q := question{peer: p.id, gen: p.gen, id: m.Seq}
	if c.status.Role != Leading || m.Epoch != c.lead.epoch {
		c.answer(q, false)
		return
	}
	c.ask(q)
}

// sendReadIndex asks the leader, once for all questions since the last call.
func (c *Core) sendReadIndex() {
	if len(c.barriers.forward) == 0 {
		return
	}
	p := c.linked(c.status.Leader)
	if p == nil {
		return // about to look for another leader
	}
	c.barriers.batches++
	c.barriers.forwards = append(c.barriers.forwards, forwarded{c.barriers.batches, c.barriers.forward, c.now})
	c.barriers.forward = nil
	c.post(p, Message{Kind: MsgReadIndex, Epoch: c.lead.epoch, Seq: c.barriers.batches})
}

func (c *Core) onReadIndexResp(p *peer, m *Message) {
	if !c.isLeader(p) {
		return
	}
	for i := range c.barriers.forwards {
		if f := c.barriers.forwards[i]; f.batch == m.Seq {
			c.barriers.forwards = append(c.barriers.forwards[:i], c.barriers.forwards[i+1:]...)
			c.resolve(f.ids, m.Flags&FlagGranted != 0, m.Commit)
			return
		}
	}
}

func (c *Core) resolve(ids []uint64, ok bool, index jute.Zxid) {
	if !ok {
		index = 0
	}
	for _, id := range ids {
		c.reads = append(c.reads, ReadResult{ID: id, OK: ok, Index: index})
	}
}

// tickReads fails questions whose answer must have been lost.
func (c *Core) tickReads() {
	for len(c.barriers.forwards) > 0 && c.now >= c.barriers.forwards[0].at+c.opt.ElectionTimeout {
		c.resolve(c.barriers.forwards[0].ids, false, 0)
		c.barriers.forwards = c.barriers.forwards[1:]
	}
}

// failReads fails all open questions when the role ends.
func (c *Core) failReads() {
	for _, list := range [...][]question{c.barriers.inRound, c.barriers.asked} {
		for _, q := range list {
			q.index = 0
			c.answer(q, false)
		}
	}
	for _, f := range c.barriers.forwards {
		c.resolve(f.ids, false, 0)
	}
	c.resolve(c.barriers.forward, false, 0)
	c.barriers.inRound, c.barriers.asked, c.barriers.forwards, c.barriers.forward, c.barriers.readRound = c.barriers.inRound[:0], c.barriers.asked[:0], nil, nil, 0
}
