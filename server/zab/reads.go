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
		c.forward = append(c.forward, id)
	default:
		c.reads = append(c.reads, ReadResult{ID: id})
	}
}

// ask queues a question at the leader.
func (c *Core) ask(q question) {
	q.index = c.committed
	decides := c.standalone
	decides = decides || readWithoutRound.Planted()
	if decides {
		c.answer(q, true)
		return
	}
	if readRoundTooEarly.Planted() && c.readRound != 0 {
		c.inRound = append(c.inRound, q)
		return
	}
	c.asked = append(c.asked, q)
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
	m := Message{Kind: MsgReadIndexResp, Epoch: c.epoch, Seq: q.id, Commit: q.index}
	if ok {
		m.Flags = FlagGranted
	}
	c.post(p, m)
}

// startReadRound sends a heartbeat for the waiting questions.
func (c *Core) startReadRound() {
	if len(c.asked) == 0 || c.readRound != 0 || c.status.Role != Leading {
		return
	}
	c.asked, c.inRound = c.inRound[:0], c.asked
	c.ping(noLease)
	c.readRound = c.pingSeq
	c.finishReadRound()
}

// finishReadRound answers when a quorum has confirmed the heartbeat.
func (c *Core) finishReadRound() {
	if c.readRound == 0 || !c.quorumEchoed(c.readRound) {
		return
	}
	c.readRound = 0
	for _, q := range c.inRound {
		c.answer(q, true)
	}
	c.inRound = c.inRound[:0]
	c.startReadRound()
}

func (c *Core) onReadIndex(p *peer, m *Message) {
	q := question{peer: p.id, gen: p.gen, id: m.Seq}
	if c.status.Role != Leading || m.Epoch != c.epoch {
		c.answer(q, false)
		return
	}
	c.ask(q)
}

// sendReadIndex asks the leader, once for all questions since the last call.
func (c *Core) sendReadIndex() {
	if len(c.forward) == 0 {
		return
	}
	p := c.linked(c.status.Leader)
	if p == nil {
		return // about to look for another leader
	}
	c.batches++
	c.forwards = append(c.forwards, forwarded{c.batches, c.forward, c.now})
	c.forward = nil
	c.post(p, Message{Kind: MsgReadIndex, Epoch: c.epoch, Seq: c.batches})
}

func (c *Core) onReadIndexResp(p *peer, m *Message) {
	if !c.isLeader(p) {
		return
	}
	for i := range c.forwards {
		if f := c.forwards[i]; f.batch == m.Seq {
			c.forwards = append(c.forwards[:i], c.forwards[i+1:]...)
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
	for len(c.forwards) > 0 && c.now >= c.forwards[0].at+c.opt.ElectionTimeout {
		c.resolve(c.forwards[0].ids, false, 0)
		c.forwards = c.forwards[1:]
	}
}

// failReads fails all open questions when the role ends.
func (c *Core) failReads() {
	for _, list := range [...][]question{c.inRound, c.asked} {
		for _, q := range list {
			q.index = 0
			c.answer(q, false)
		}
	}
	for _, f := range c.forwards {
		c.resolve(f.ids, false, 0)
	}
	c.resolve(c.forward, false, 0)
	c.inRound, c.asked, c.forwards, c.forward, c.readRound = c.inRound[:0], c.asked[:0], nil, nil, 0
}
