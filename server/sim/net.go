package sim

import (
	"slices"

	"github.com/zkd-project/zkd/server/zab"
)

// packet is the payload of an event. The kind of the event determines which fields are
// used.
type packet struct {
	from, to int8 // nodes
	link     *link
	msg      zab.Message
	raw      []byte       // the message instead, encoded
	frame    uint8        // the kind of a frame of the replica, which is in raw; 0 for none
	touches  []ghostTouch // in that frame
	bulk     bool         // sent in the bulk lane
	read     zab.LogRead
	xfer     *transfer
	client   int
	req      request
	rep      reply
	undo     func()
	sent     uint64 // time of sending, µs
}

// link is a connection between two nodes, ends[0] < ends[1]. Each end numbers its links and
// learns of the end of the link separately.
type link struct {
	s            *Sim
	ends         [2]int8
	gen          [2]uint64
	up           [2]bool             // the end knows of the link
	dead         bool                // nothing gets through any more
	lossy        [2]bool             // by sender: something was lost, so everything that follows is lost
	messagesLost [2]bool             // by sender: single messages were lost, or reordered
	next         [2][2]uint64        // by sender and lane: the next message arrives no earlier
	framed       [2][2]uint64        // next, of frames: no message overtakes the last frame of a replica
	slow         uint64              // additional delay, µs
	opened       [2]uint64           // when each end admits the link
	intro        [2]zab.Introduction // what each end said in its hello
	said         [2]uint64           // process.relinks of each end at that time
}

// The lanes of a link: messages in one keep their order, and control messages overtake
// those in the other.
const (
	laneControl = iota
	laneBulk
)

func (p *packet) lane() int {
	if p.bulk {
		return laneBulk
	}
	return laneControl
}

// side returns the index of a node's end.
func (l *link) side(n *node) int {
	if l.ends[0] == n.idx {
		return 0
	}
	return 1
}

// works reports whether a message from n gets through.
func (l *link) works(n *node) bool {
	side := l.side(n)
	return !l.dead && l.up[side] && l.up[1-side] && !l.lossy[side] && !l.s.blocked(l.ends[side], l.ends[1-side])
}

// blocked reports whether nothing gets from one node to another.
func (s *Sim) blocked(from, to int8) bool { return s.blocks[from][to] > 0 }

// linkTo returns the current link of n to a peer, or nil.
func (s *Sim) linkTo(n *node, peer zab.SID) *link {
	if l := s.links[n.idx][int8(peer-1)]; l != nil && l.up[l.side(n)] {
		return l
	}
	return nil
}

// dial tries to connect two nodes later.
func (s *Sim) dial(a, b *node, after uint64) {
	lo, hi := min(a.idx, b.idx), max(a.idx, b.idx)
	if s.dialing[lo][hi] {
		return
	}
	s.dialing[lo][hi] = true
	s.agenda.push(event{at: s.now + after, kind: evDial, node: -1, arg: int32(lo)<<8 | int32(hi)})
}

func (s *Sim) dialNow(lo, hi int8) {
	s.dialing[lo][hi] = false
	a, b := s.nodes[lo], s.nodes[hi]
	if !a.alive || !b.alive {
		return // the one that starts dials
	}
	if old := s.links[lo][hi]; old != nil && !old.dead {
		return
	}
	if !s.accepts(a, b) || !s.accepts(b, a) {
		s.tellRefused(a, b)
		if a.alive && b.alive {
			s.tellRefused(b, a)
		}
		s.dial(a, b, s.cfg.ElectionMs*1000+s.between(0, s.cfg.DialMs*1000))
		return
	}
	if a.paused || b.paused || s.blocked(lo, hi) || s.blocked(hi, lo) {
		s.dial(a, b, s.between(s.cfg.DialMs*500, s.cfg.DialMs*1500))
		return
	}
	l := &link{s: s, ends: [2]int8{lo, hi}}
	for side, n := range [2]*node{a, b} {
		if old := s.links[lo][hi]; old != nil && old.up[side] && s.percent(50) {
			s.linkDown(n, old, side)
			if !n.alive {
				return
			}
		}
		n.gen++
		l.gen[side] = n.gen
		l.intro[side], l.said[side] = n.core.Introduction(), n.relinks
		l.opened[side] = s.now + s.handshake(a, b)
		l.next[1-side] = [2]uint64{l.opened[side], l.opened[side]}
		s.agenda.push(event{at: l.opened[side], kind: evLinkUp, node: n.idx, life: n.life, pkt: &packet{link: l, to: int8(side)}})
	}
	s.links[lo][hi], s.links[hi][lo] = l, l
	s.stats.Links++
}

// handshake returns how long a handshake takes for one end. A process that is stopped, or a slow
// network, can make it long.
func (s *Sim) handshake(a, b *node) uint64 {
	took := s.between(10, s.cfg.NetUs*2)
	switch {
	case s.slowHandshake != nil:
		took += s.slowHandshake(a, b)
	case s.phase == phaseChaos && s.cfg.GreetPct > 0 && s.percent(s.cfg.GreetPct):
		took += s.between(0, s.cfg.ElectionMs*1000)
	}
	return took
}

// linkUp tells a node of a new link, unless what the node said in its hello is no longer true.
func (s *Sim) linkUp(n *node, l *link, side int) {
	if l.dead || s.links[l.ends[0]][l.ends[1]] != l {
		return
	}
	peer := s.nodes[l.ends[1-side]]
	if !zab.IntroductionStands(l.said[side], n.relinks) && !s.cfg.LateHellos {
		s.trace(n, "does not admit the link to %d: its hello is out of date", peer.id)
		s.breakLink(l, [2]uint64{s.between(10, s.cfg.NetUs*4), s.between(10, s.cfg.NetUs*4)})
		return
	}
	if shown := l.intro[side].Incarnation; n.relinks > 0 && shown != n.shows && !s.cfg.LateHellos {
		s.fail("I23", "server %d admits a link on which it said that it is %x; now it is %x", n.id, shown, n.shows)
	}
	l.up[side] = true
	s.trace(n, "link %d to %d is up", l.gen[side], peer.id)
	n.rep.PeerUp(peer.id, l.gen[side], l.intro[1-side])
	s.tellMembers(n, peer, l.intro[1-side].List)
	s.noteShown(n, peer, &l.intro[1-side])
	s.takeOutputs(n)
}

// linkDown tells a node that a link is gone.
func (s *Sim) linkDown(n *node, l *link, side int) {
	if !l.up[side] {
		return
	}
	l.up[side] = false
	peer := s.nodes[l.ends[1-side]]
	s.trace(n, "link %d to %d is down", l.gen[side], peer.id)
	n.rep.PeerDown(peer.id, l.gen[side])
	s.takeOutputs(n)
}

// breakLink ends a link: messages in transit are lost. Each end learns of it after the
// given time, or at once if that is 0; for a half-open link it takes long.
func (s *Sim) breakLink(l *link, after [2]uint64) {
	if l == nil || l.dead {
		return
	}
	l.dead = true
	s.stats.Breaks++
	for side := range l.ends {
		n := s.nodes[l.ends[side]]
		if !n.alive {
			continue
		}
		s.agenda.push(event{at: s.now + after[side], kind: evLinkDown, node: n.idx, life: n.life,
			pkt: &packet{link: l, to: int8(side)}})
	}
	a, b := s.nodes[l.ends[0]], s.nodes[l.ends[1]]
	s.dial(a, b, s.between(s.cfg.DialMs*500, s.cfg.DialMs*1500))
}

// dropLinks ends the links of a node that has died.
func (s *Sim) dropLinks(n *node) {
	for i := range s.nodes {
		l := s.links[n.idx][i]
		if l == nil || l.dead {
			continue
		}
		l.up[l.side(n)] = false
		after := s.between(10, s.cfg.NetUs*4)
		if s.percent(10) {
			after = s.between(1, s.cfg.ElectionMs*3000) // its machine sends nothing
		}
		s.breakLink(l, [2]uint64{after, after})
	}
}

// noteLoss records that something was lost on a link. A transport would eventually notice,
// and break the link.
func (s *Sim) noteLoss(l *link, side int) {
	if l.lossy[side] {
		return
	}
	l.lossy[side] = true
	s.afterUndo(s.between(s.cfg.ElectionMs*100, s.cfg.ElectionMs*3000), func() {
		s.breakLink(l, [2]uint64{0, s.between(0, s.cfg.ElectionMs*500)})
	})
}

// send sends a message of the core.
func (s *Sim) send(n *node, o *zab.Outgoing) {
	if int(o.To) > len(s.nodes) || o.To == n.id || o.To == 0 {
		s.fail("Send", "server %d sends %v to %d", n.id, &o.Msg, o.To)
	}
	s.behavior.Sends(n.id, &o.Msg)
	s.checkSend(n, o.To, &o.Msg)
	l := s.linkTo(n, o.To)
	if l == nil || l.gen[l.side(n)] != o.Gen {
		return
	}
	s.stats.Messages++
	if s.tracing {
		s.trace(n, "send to %d: %v", o.To, &o.Msg)
	}
	if o.Msg.Kind == zab.MsgSync {
		n.moved[o.To-1] = s.now
		n.inLog[o.To-1] = o.Msg.Zxid >= n.disk.written.start
	}
	side := l.side(n)
	if s.filter != nil && !s.filter(n, s.nodes[o.To-1], &o.Msg) {
		l.messagesLost[side] = true
		return
	}
	if s.chaotic() {
		l.messagesLost[side] = true
		if s.percent(s.cfg.DropPct) {
			s.stats.Dropped++
			return
		}
		if s.percent(s.cfg.DupPct) {
			s.put(n, l, side, s.pack(n, l, o), s.cfg.ReorderPct > 0)
			s.stats.Duplicates++
		}
	}
	s.put(n, l, side, s.pack(n, l, o), s.chaotic() && s.percent(s.cfg.ReorderPct))
}

// chaotic reports whether messages may be lost, doubled or reordered individually.
func (s *Sim) chaotic() bool {
	return s.phase == phaseChaos && s.cfg.DropPct+s.cfg.DupPct+s.cfg.ReorderPct > 0
}

// pack makes a packet that shares no mutable memory with the sender.
func (s *Sim) pack(n *node, l *link, o *zab.Outgoing) *packet {
	p := s.newPacket()
	p.from, p.to, p.link, p.bulk = n.idx, int8(o.To-1), l, o.Msg.Kind.Bulk()
	if s.cfg.Encode {
		p.raw = o.Msg.Append(nil)
		return p
	}
	p.msg = o.Msg
	p.msg.Entries = slices.Clone(o.Msg.Entries)
	p.msg.Epochs = slices.Clone(o.Msg.Epochs)
	return p
}

// put schedules the arrival of a packet after the link's delay; an astray one may be
// reordered.
func (s *Sim) put(n *node, l *link, side int, p *packet, astray bool) {
	if l.dead || l.lossy[side] || s.blocked(n.idx, p.to) {
		s.stats.Dropped++
		if !l.dead && (p.frame != 0 || !s.chaotic()) {
			s.noteLoss(l, side)
		}
		s.freePacket(p)
		return
	}
	p.sent = s.now
	delay := s.between(s.cfg.NetUs/2, s.cfg.NetUs*3/2) + l.slow
	if s.phase != phaseChaos {
		delay = min(delay, s.cfg.ElectionMs*1000/40)
	} else if s.rng.Uint32()&63 == 0 {
		delay *= 10
	}
	lane := p.lane()
	at := s.deliveryTime(n, s.nodes[p.to], p.size(), lane) + delay
	if astray {
		at = max(at+s.between(0, s.cfg.NetUs*20), l.framed[side][lane])
	} else {
		at = max(at, l.next[side][lane])
		l.next[side][lane] = at
		if p.frame != 0 {
			l.framed[side][lane] = at
		}
	}
	s.agenda.push(event{at: at, kind: evDeliver, node: p.to, pkt: p})
}

// size returns the approximate size of a packet, in bytes.
func (p *packet) size() int {
	n := 50 + len(p.raw)
	for i := range p.msg.Entries {
		n += 20 + len(p.msg.Entries[i].Data)
	}
	return n
}

// deliveryTime returns when bytes sent now have passed the path to another node, which the bulk
// lane and snapshots share. A control message waits only for the bytes in the network's
// buffers, which the transport keeps short.
func (s *Sim) deliveryTime(from, to *node, bytes, lane int) uint64 {
	if s.cfg.Rate == 0 {
		return s.now
	}
	way := s.pathFreeAt(from, to)
	free := max(*way, s.now)
	if lane == laneControl {
		return s.now + s.between(0, min(free-s.now, s.heartbeat()*1000))
	}
	free += uint64(bytes) * 1000 / s.cfg.Rate
	*way = free
	return free
}

// pathFreeAt returns the time at which the path from one node to another is free.
func (s *Sim) pathFreeAt(from, to *node) *uint64 {
	if s.cfg.SharedRate {
		return &s.freeAt[from.idx][from.idx]
	}
	return &s.freeAt[from.idx][to.idx]
}

// tellRoom tells a leader how many bytes its links accept.
func (s *Sim) tellRoom(n *node) {
	if s.cfg.Rate == 0 || n.leads == 0 {
		return
	}
	limit := 2 * s.heartbeat() * s.cfg.Rate
	for _, o := range s.nodes {
		l := s.linkTo(n, o.id)
		if o == n || l == nil {
			continue
		}
		waits := (max(*s.pathFreeAt(n, o), s.now) - s.now) * s.cfg.Rate / 1000
		room := limit - min(waits, limit)
		n.core.LinkRoom(o.id, l.gen[l.side(n)], int(room))
		if room < limit/2 && !n.hungry {
			n.hungry = true
			s.after(evDrained, n, (waits-limit/2)*1000/s.cfg.Rate+1)
		}
	}
}

// noteProgress reports to a node's core the peers from and to which bulk bytes got through.
func (s *Sim) noteProgress(n *node) {
	for i := range s.nodes {
		passed := n.cameFrom[i]
		if n.leads != 0 {
			passed = n.gotTo[i]
		}
		n.cameFrom[i], n.gotTo[i] = false, false
		if l := s.linkTo(n, zab.SID(i+1)); passed && l != nil {
			n.moved[i] = s.now
			n.core.Progress(zab.SID(i+1), l.gen[l.side(n)])
		}
	}
}

func (s *Sim) deliver(n *node, p *packet) {
	l := p.link
	side := l.side(n)
	if l.dead || !l.up[side] || s.blocked(p.from, p.to) || !n.alive {
		s.stats.Dropped++
		if !l.dead && l.up[side] && (p.frame != 0 || !s.chaotic()) {
			s.noteLoss(l, 1-side)
		}
		s.freePacket(p)
		return
	}
	from := zab.SID(p.from + 1)
	if p.bulk {
		n.cameFrom[p.from], s.nodes[p.from].gotTo[n.idx] = true, true
	}
	if p.frame != 0 {
		s.hearFrame(n, p)
		s.freePacket(p)
		return
	}
	m := &p.msg
	if p.raw != nil {
		var err error
		if err = m.Decode(p.raw); err != nil {
			s.fail("Codec", "message of server %d does not decode: %v", from, err)
		}
	}
	if s.tracing {
		s.trace(n, "from %d: %v", from, m)
	}
	s.noteEpochNews(n, from, m, p.sent)
	n.core.Recv(from, l.gen[side], m)
	s.freePacket(p)
	s.takeOutputs(n)
}

// checkSend checks that the assertions of a message would survive a crash of the sender
// now: I16.
func (s *Sim) checkSend(n *node, to zab.SID, m *zab.Message) {
	d := &n.disk.durable
	switch m.Kind {
	case zab.MsgNewEpoch:
		if d.promise.Epoch < m.Epoch {
			s.fail("I16", "server %d sends %v, but its durable promise is %v", n.id, m, d.promise)
		}
	case zab.MsgAckEpoch:
		if d.promise.Epoch < m.Epoch {
			s.fail("I16", "server %d sends %v, but its durable promise is %v", n.id, m, d.promise)
		}
	case zab.MsgAck:
		if d.promise.Epoch < m.Epoch || !d.has(m.Zxid) || len(d.ents) == 0 && m.Zxid > d.start {
			last, _ := d.last()
			s.fail("I16", "server %d sends %v, but durable are promise %v and %v", n.id, m, d.promise, last)
		}
	case zab.MsgDoubt:
		if p := s.node(to); !p.old && p.boot == m.Boot && p.oldBoot != m.Boot {
			s.fail("I22", "server %d takes server %d to run on an old copy of its data", n.id, to)
		}
	case zab.MsgTimeoutNow:
		if last := n.core.LastZxid(); m.Zxid != last {
			s.fail("A10", "server %d hands over to one that has %v; its own last entry is %v", n.id, m.Zxid, last)
		}
	case zab.MsgCommit, zab.MsgAppend, zab.MsgPing:
		if m.Commit > s.ghost.last {
			s.fail("I12", "server %d sends %v, but only %v is committed", n.id, m, s.ghost.last)
		}
	}
}

// newPacket and freePacket reuse packets.
func (s *Sim) newPacket() *packet {
	if k := len(s.free); k > 0 {
		p := s.free[k-1]
		s.free = s.free[:k-1]
		return p
	}
	return new(packet)
}

func (s *Sim) freePacket(p *packet) {
	*p = packet{}
	s.free = append(s.free, p)
}
