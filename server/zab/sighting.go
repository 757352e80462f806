package zab

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// An old copy of a server's directory has forgotten what the server has
// acknowledged and promised since. It must not count, as if it were damaged. The
// copy can't tell that it is one, but other servers can: the records of a log are
// numbered, and the number of the last durable record never goes back.
//
// Each start writes a record, so a process of an honest log begins behind every
// record that was ever shown to anybody. Servers remember the highest number that
// they have seen of each other, and in which process. A process with the same
// incarnation that begins at that number, or before it, runs on an old copy.
// Whoever remembers that does not listen to it and tells it so (MsgDoubt). The
// server then takes a new incarnation, which no ensemble has admitted: it has no
// vote until a leader has brought it up to date and the others have admitted it.
//
// Only a server that has seen the later state can know. If none of them can be
// reached, nobody notices.

// Sighting is what is known of the log of another server.
type Sighting struct {
	Server      SID
	Incarnation ID
	Boot        uint64 // of the process
	// Position is the highest number that a durable record of the log is known to
	// have had.
	Position uint64
}

const (
	sightingSize = 1 + 16 + 8 + 8
	// MaxSightings bounds the table, which is kept in the header of each segment
	// of the log. Only servers with a vote are in it.
	MaxSightings = 60
	// sightingsEvery is how often positions are written to the log while they
	// grow, in ms.
	sightingsEvery = 10_000
)

func (s *Sighting) compare(o *Sighting) int {
	if s.Server != o.Server {
		return int(s.Server) - int(o.Server)
	}
	return bytes.Compare(s.Incarnation[:], o.Incarnation[:])
}

// AppendSightings appends the encoding of a table, which is sorted by server and
// incarnation.
func AppendSightings(b []byte, list []Sighting) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for i := range list {
		s := &list[i]
		b = append(append(b, byte(s.Server)), s.Incarnation[:]...)
		b = binary.BigEndian.AppendUint64(b, s.Boot)
		b = binary.BigEndian.AppendUint64(b, s.Position)
	}
	return b
}

// DecodeSightings is the inverse of AppendSightings, for all of b.
func DecodeSightings(b []byte) ([]Sighting, error) {
	const what = "sightings"
	d := decoder{b: b}
	n := d.count(sightingSize, what)
	var list []Sighting
	for i := range n {
		s := Sighting{Server: SID(d.u8(what)), Incarnation: d.id(what), Boot: d.u64(what), Position: d.u64(what)}
		if s.Server == 0 || i > 0 && s.compare(&list[i-1]) <= 0 {
			d.fail("sightings out of order")
		}
		list = append(list, s)
	}
	if err := d.end(what); err != nil {
		return nil, err
	}
	return list, nil
}

// sightings is what a core remembers of the others' logs.
type sightings struct {
	table []Sighting
	dirty bool   // positions have grown since the table was written
	due   uint64 // when they are to be written
}

// find returns the row of the present incarnation of a peer.
func (t *sightings) find(p *peer) *Sighting {
	for i := range t.table {
		if s := &t.table[i]; s.Server == p.id && s.Incarnation == p.incarnation {
			return s
		}
	}
	return nil
}

// add puts a row into the table, in place of one of the same incarnation.
func (t *sightings) add(now Sighting) {
	i, found := slices.BinarySearchFunc(t.table, now, func(a, b Sighting) int { return a.compare(&b) })
	switch {
	case found:
		t.table[i] = now
	case len(t.table) < MaxSightings:
		t.table = slices.Insert(t.table, i, now)
	}
}

// sight compares what a server shows of its log with what is known of it, and
// doubts the server if that is less.
func (c *Core) sight(p *peer, in *Introduction) {
	p.doubted, p.doubtAt, p.start = false, 0, in.Start
	if in.Start == 0 || !c.voter(p.id) && !c.opt.Members.Voter(p.id) {
		return
	}
	old := c.seen.find(p)
	switch {
	case old == nil:
	case old.Boot == in.Boot:
		return
	case in.Start > old.Position:
	case in.Vouched:
		c.event(2, p.id, fmt.Sprintf("the log of the server was at record %d and is at %d now; its operator vouches for it", old.Position, in.Start))
	case mutated(oldCopyTrusted) || in.Start == old.Position && mutated(sameStartTrusted):
	default:
		p.doubtAt = old.Position
		c.doubt(p, fmt.Sprintf("its log had come to record %d, and its present process began at record %d", old.Position, in.Start))
		return
	}
	c.seen.add(Sighting{p.id, in.Incarnation, in.Boot, in.Start})
	c.writeSightings()
}

// doubt stops listening to a server that runs on an old copy of its data, and
// tells it so.
func (c *Core) doubt(p *peer, why string) {
	c.event(3, p.id, "the other server runs on an old copy of its data: "+why+". It has no vote until it has been brought up to date and is admitted again")
	c.stopLearner(p)
	p.doubted = true
	p.granted, p.promised, p.sure, p.match = false, false, false, 0
	c.tellDoubt(p)
}

func (c *Core) tellDoubt(p *peer) {
	if !mutated(doubtNotTold) {
		c.post(p, Message{Kind: MsgDoubt, Boot: p.boot, Seq: p.doubtAt, Zxid: p.acked})
	}
}

// onDoubt takes in that this server runs on an old copy of its data. It gives up
// its role and its incarnation.
func (c *Core) onDoubt(p *peer, m *Message) {
	if m.Boot != c.opt.Boot || c.disowned || c.start == 0 {
		return
	}
	if c.opt.AcceptOldData {
		return // the operator knows; the next introduction tells the other server
	}
	seen := fmt.Sprintf("has seen record %d of its log, and this process began at record %d", m.Seq, c.start)
	if m.Zxid > c.appended {
		seen = fmt.Sprintf("has seen it acknowledge %v, and its history ends at %v", m.Zxid, c.appended)
	}
	c.event(3, p.id, "the data of this server is an old copy: the other server "+seen+". "+
		"It has no vote until a leader has brought it up to date and it is admitted again, which happens by itself while a majority of the others is up. "+
		"If all servers were restored from copies, and what came later is to be given up, start it with --accept-old-data")
	c.disowned, c.damaged = true, true
	c.incarnation = c.newID()
	c.unpersisted = append(c.unpersisted, LogOp{Kind: LogIncarnation, Incarnation: c.incarnation, Damaged: true})
	c.relinkSeq = c.pendingSeq()
	c.look("its data is an old copy", c.opt.Heartbeat)
}

// acceptOldData takes back the incarnation under which the ensemble has admitted
// this server, as far as its data tells.
func (c *Core) acceptOldData() {
	i := slices.IndexFunc(c.settled.Admitted, func(a Admission) bool { return a.Server == c.opt.ID })
	if i < 0 {
		c.event(2, 0, "--accept-old-data has no effect: no ensemble has ever admitted the data of this server")
		return
	}
	c.event(2, 0, "the operator vouches for the data of this server (--accept-old-data): it counts, although it may have forgotten what it confirmed")
	if a := c.settled.Admitted[i]; a.Incarnation != c.incarnation || c.damaged {
		c.incarnation, c.damaged = a.Incarnation, false
		c.unpersisted = append(c.unpersisted, LogOp{Kind: LogIncarnation, Incarnation: c.incarnation})
	}
}

// sightPosition takes in how far the log of a learner is.
func (c *Core) sightPosition(p *peer, position uint64) {
	if s := c.seen.find(p); s != nil && s.Boot == p.boot && s.Position < position {
		s.Position = position
		c.seen.dirty = true
	}
}

// tickSightings writes positions that have grown.
func (c *Core) tickSightings() {
	if c.seen.dirty && c.now >= c.seen.due {
		c.writeSightings()
	}
}

// writeSightings has the table written to the log. Nobody waits for that.
func (c *Core) writeSightings() {
	c.seen.table = slices.DeleteFunc(c.seen.table, c.outdated)
	c.seen.dirty, c.seen.due = false, c.now+sightingsEvery
	if !mutated(sightingsNotWritten) {
		c.unpersisted = append(c.unpersisted, LogOp{Kind: LogSightings, Sightings: slices.Clone(c.seen.table)})
	}
}

// outdated reports whether a row is of no use any more: the server has another
// incarnation, and not the one of the row is admitted. That of an admitted one
// stays until another one is, since a copy with it may be put back.
func (c *Core) outdated(s Sighting) bool {
	p := c.peer(s.Server)
	return p != nil && p.incarnation != s.Incarnation && !c.tip.Admits(s.Server, s.Incarnation)
}

// position is how many records of this server's log are durable, or 0 if the log
// is not synced. The shell may have written more.
func (c *Core) position() uint64 {
	if c.start == 0 {
		return 0
	}
	if mutated(positionBeforeFsync) {
		n := len(c.unpersisted)
		for i := range c.inFlight {
			n += c.inFlight[i].records
		}
		return c.start + c.recorded + uint64(n)
	}
	return c.start + c.recorded
}

// newID makes a name that nobody else has.
func (c *Core) newID() (id ID) {
	binary.BigEndian.PutUint64(id[:8], c.random64())
	binary.BigEndian.PutUint64(id[8:], c.random64())
	return id
}
