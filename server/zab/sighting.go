package zab

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/internal/wire"
)

// An old copy of a server's directory lacks what the server has acknowledged and promised
// since. Like a damaged log, it must not count. The copy can't detect that it is one, but
// other servers can: the records of a log are numbered, and durable records stay.
//
// Each start of a process writes a record to its log, which the log remembers. When a link
// begins, a server shows where its last processes started. Servers remember for each other
// the last process seen, and the highest number that a durable record had then. An honest
// log has that process among its starts, and the next one started after that number. A log
// that lacks the process, or in which the next one started too early, is an old copy. A
// server that sees this ignores the other one and tells it so (MsgDoubt). The other one
// then takes a new incarnation, which no ensemble has admitted: it has no vote until a
// leader has brought it up to date and the others have admitted it.
//
// Only a server that has seen the later state can know. If none of them can be reached, an
// old copy goes unnoticed.

// Start is the start of a process.
type Start struct {
	Boot     uint64
	Position uint64 // number of the first record that it wrote to the log
}

// Sighting is what is known about the log of another server.
type Sighting struct {
	Server      SID
	Incarnation ID
	Boot        uint64 // of the process
	// Position is the highest number that a durable record of the log is known to have had.
	Position uint64
}

// Notes is what a log remembers besides the history and the promise.
type Notes struct {
	Starts    []Start    // of this server, oldest first; the present process is the last
	Sightings []Sighting // of others, sorted by server and incarnation
}

const (
	startSize    = 8 + 8
	sightingSize = 1 + 16 + 8 + 8
	// MaxStarts and MaxSightings bound the notes, which are kept in the header of each segment of
	// the log. If there are too many servers, voters replace others.
	MaxStarts    = 48
	MaxSightings = 44
	// maxIncarnations bounds the incarnations of one server in the notes.
	maxIncarnations = 4
	// notesEvery is the interval at which growing positions are written to the log, in ms.
	notesEvery = 10_000
)

// Begin adds the start of the present process to the notes of its log, and reports whether they must
// be on the disk, as the record at s.Position, before another server hears of the process. If the log
// is not synced, a crash may lose its end, and it does not record starts.
func (n *Notes) Begin(s Start, synced bool) (record bool) {
	if !synced {
		n.Starts = nil
		return false
	}
	n.addStart(s)
	record = true
	return record && !noStartRecord.Planted()
}

func (n *Notes) addStart(s Start) {
	n.Starts = append(slices.Clone(n.Starts[max(0, len(n.Starts)-MaxStarts+1):]), s)
}

// shows reports whether a log with these starts can be the one that was seen, or a later
// state of it. A process older than all starts of a full list may have been in it.
func (s *Sighting) shows(starts []Start) bool {
	for i := range starts {
		if starts[i].Boot == s.Boot {
			return i+1 == len(starts) || starts[i+1].Position > s.Position
		}
	}
	return len(starts) >= MaxStarts && starts[0].Position > s.Position
}

func (s *Sighting) compare(o *Sighting) int {
	if s.Server != o.Server {
		return int(s.Server) - int(o.Server)
	}
	return bytes.Compare(s.Incarnation[:], o.Incarnation[:])
}

// AppendStarts appends the encoding of starts.
func AppendStarts(b []byte, list []Start) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = binary.BigEndian.AppendUint64(b, s.Boot)
		b = binary.BigEndian.AppendUint64(b, s.Position)
	}
	return b
}

func (d *decoder) starts() (list []Start) {
	n := d.Count(startSize)
	if n > MaxStarts {
		d.Malformed("too many starts")
		return nil
	}
	for i := range n {
		list = append(list, Start{Boot: d.BigUint64(), Position: d.BigUint64()})
		if list[i].Position == 0 || i > 0 && list[i].Position <= list[i-1].Position {
			d.Malformed("starts out of order")
		}
	}
	return list
}

// DecodeStarts is the inverse of AppendStarts, for all of b.
func DecodeStarts(b []byte) ([]Start, error) {
	d := decoder{wire.NewReader(b)}
	list := d.starts()
	return list, d.end("starts")
}

// Append appends the encoding of the notes.
func (n *Notes) Append(b []byte) []byte {
	b = AppendStarts(b, n.Starts)
	b = binary.AppendUvarint(b, uint64(len(n.Sightings)))
	for i := range n.Sightings {
		s := &n.Sightings[i]
		b = append(append(b, byte(s.Server)), s.Incarnation[:]...)
		b = binary.BigEndian.AppendUint64(b, s.Boot)
		b = binary.BigEndian.AppendUint64(b, s.Position)
	}
	return b
}

// Decode sets n from all of b.
func (n *Notes) Decode(b []byte) error {
	d := decoder{wire.NewReader(b)}
	*n = Notes{Starts: d.starts()}
	for i := range d.Count(sightingSize) {
		s := Sighting{Server: SIDOf(d.Byte()), Incarnation: d.id(), Boot: d.BigUint64(), Position: d.BigUint64()}
		if s.Server == 0 || i > 0 && s.compare(&n.Sightings[i-1]) <= 0 {
			d.Malformed("sightings out of order")
		}
		n.Sightings = append(n.Sightings, s)
	}
	return d.end("sightings")
}

// sightings is what a core remembers of the logs of others and of its own.
type sightings struct {
	Notes
	dirty bool   // positions have grown since the notes were written
	due   uint64 // when the notes are to be written
}

// find returns the row of a peer's current incarnation.
func (t *sightings) find(p *peer) *Sighting {
	for i := range t.Sightings {
		if s := &t.Sightings[i]; s.Server == p.id && s.Incarnation == p.incarnation {
			return s
		}
	}
	return nil
}

// addSighting puts a row into the table, replacing one of the same incarnation.
func (c *Core) addSighting(now Sighting) {
	t := &c.seen
	i, found := slices.BinarySearchFunc(t.Sightings, now, func(a, b Sighting) int { return a.compare(&b) })
	if found {
		t.Sightings[i] = now
		return
	}
	if c.dropShortest(now.Server) {
		c.addSighting(now)
		return
	}
	if len(t.Sightings) < MaxSightings {
		t.Sightings = slices.Insert(t.Sightings, i, now)
		return
	}
	spare := slices.IndexFunc(t.Sightings, func(s Sighting) bool { return !c.voter(s.Server) })
	if spare >= 0 && c.voter(now.Server) {
		t.Sightings = slices.Delete(t.Sightings, spare, spare+1)
		c.addSighting(now)
	}
}

// dropShortest makes room for another incarnation of a server, if there are already
// maxIncarnations: of those that are not admitted, it drops the one with the shortest log. It
// reports whether it dropped one.
func (c *Core) dropShortest(server SID) bool {
	t, count, shortest := &c.seen, 0, -1
	for i, s := range t.Sightings {
		if s.Server != server {
			continue
		}
		count++
		admitted := c.log.tip.Admits(server, s.Incarnation) || c.log.settled.Admits(server, s.Incarnation)
		if !admitted && (shortest < 0 || s.Position < t.Sightings[shortest].Position) {
			shortest = i
		}
	}
	if count < maxIncarnations || shortest < 0 {
		return false
	}
	t.Sightings = slices.Delete(t.Sightings, shortest, shortest+1)
	return true
}

// checkSighting compares the log that a server shows with what is known about it, and doubts the
// server if it can't be the same log.
func (c *Core) checkSighting(p *peer, in *Introduction) {
	p.oldCopy, p.knownPosition, p.start = false, 0, in.start()
	if p.start == 0 {
		return
	}
	old := c.seen.find(p)
	switch {
	case old == nil:
	case old.Boot == in.Boot:
		return
	case old.shows(in.Starts):
	case in.Vouched:
		c.event(Warn, p.id, fmt.Sprintf("the log of the server was at record %d, and this is an older state of it; its operator vouches for it", old.Position))
	case oldCopyTrusted.Planted() || grownCopyTrusted.Planted() && p.start > old.Position:
	default:
		p.knownPosition = old.Position
		c.ignoreOldCopy(p, fmt.Sprintf("its log had come to record %d, and what it shows is an older state, or continues one", old.Position))
		return
	}
	c.addSighting(Sighting{p.id, in.Incarnation, in.Boot, p.start})
	c.writeNotes()
}

// ignoreOldCopy ignores a server that runs on an old copy of its data from now on, and tells it so.
func (c *Core) ignoreOldCopy(p *peer, why string) {
	if p.doubted != p.boot {
		p.doubted = p.boot
		c.event(Error, p.id, "the other server runs on an old copy of its data: "+why+". It has no vote until it has been brought up to date and is admitted again")
	}
	if doubtedHeard.Planted() {
		return
	}
	c.stopLearner(p)
	p.oldCopy, p.ignoredFrom = true, c.now
	p.granted, p.promised, p.reportsCounted, p.match = false, false, false, 0
	c.sendDoubt(p)
}

func (c *Core) sendDoubt(p *peer) {
	if !doubtNotTold.Planted() {
		c.post(p, Message{Kind: MsgDoubt, Boot: p.boot, Seq: p.knownPosition, Zxid: p.acked})
	}
}

// onDoubt handles the report that this server runs on an old copy of its data. It gives up
// its role and its incarnation.
func (c *Core) onDoubt(p *peer, m *Message) {
	if m.Boot != c.opt.Boot || c.disowned || c.start == 0 {
		return
	}
	if c.opt.AcceptOldData {
		return // the operator knows; the next introduction tells the other server
	}
	seen := fmt.Sprintf("has seen a later state of its log, at record %d", m.Seq)
	if m.Zxid > c.log.appended {
		seen = fmt.Sprintf("has seen it acknowledge %v, and its history ends at %v", m.Zxid, c.log.appended)
	}
	c.event(Error, p.id, "the data of this server is an old copy: the other server "+seen+". "+
		"It has no vote until a leader has brought it up to date and it is admitted again, which happens by itself while a majority of the others is up. "+
		"If all servers were restored from copies, and what came later is to be given up, start it with --accept-old-data")
	c.disowned, c.damaged = true, true
	c.incarnation = c.newID()
	c.unpersisted = append(c.unpersisted, LogOp{Kind: LogIncarnation, Incarnation: c.incarnation, Damaged: true})
	c.relinkSeq = c.pendingSeq()
	c.look("its data is an old copy", c.opt.Heartbeat)
}

// acceptOldData restores the incarnation under which the ensemble has admitted this server,
// as far as its data shows.
func (c *Core) acceptOldData() {
	i := slices.IndexFunc(c.log.tip.Admitted, func(a Admission) bool { return a.Server == c.opt.ID })
	if i < 0 {
		c.event(Warn, 0, "--accept-old-data has no effect: no ensemble has ever admitted the data of this server")
		return
	}
	c.event(Warn, 0, "the operator vouches for the data of this server (--accept-old-data): it counts, although it may have forgotten what it confirmed")
	if a := c.log.tip.Admitted[i]; a.Incarnation != c.incarnation || c.damaged {
		c.incarnation, c.damaged = a.Incarnation, false
		c.unpersisted = append(c.unpersisted, LogOp{Kind: LogIncarnation, Incarnation: c.incarnation})
	}
}

// sightPosition records the position of a learner's log.
func (c *Core) sightPosition(p *peer, position uint64) {
	if s := c.seen.find(p); s != nil && s.Boot == p.boot && s.Position < position {
		s.Position = position
		c.seen.dirty = true
	}
}

// tickNotes writes positions that have grown.
func (c *Core) tickNotes() {
	if c.seen.dirty && c.now >= c.seen.due {
		c.writeNotes()
	}
}

// writeNotes writes the notes to the log. Nothing waits for that.
func (c *Core) writeNotes() {
	c.seen.Sightings = slices.DeleteFunc(c.seen.Sightings, c.outdated)
	c.seen.dirty, c.seen.due = false, c.now+notesEvery
	if !notesNotWritten.Planted() {
		notes := Notes{Starts: c.seen.Starts, Sightings: slices.Clone(c.seen.Sightings)}
		c.unpersisted = append(c.unpersisted, LogOp{Kind: LogNotes, Notes: notes})
	}
}

// outdated reports whether a row is obsolete: the server has another incarnation, and that
// one is admitted by what is committed. Until then the row stays, since a copy of the log may be put
// back, and an admission that is not committed may be cut from the history. That
// the history of this server does not admit the row's incarnation proves nothing: it may
// lack the end of the history.
func (c *Core) outdated(s Sighting) bool {
	p := c.peer(s.Server)
	return p != nil && p.incarnation != s.Incarnation && c.log.settled.Admits(s.Server, p.incarnation)
}

// position returns the number of durable records of this server's log, or 0 if the log is
// not synced. The shell may have written more.
func (c *Core) position() uint64 {
	if c.start == 0 {
		return 0
	}
	if positionBeforeFsync.Planted() {
		n := len(c.unpersisted)
		for i := range c.inFlight {
			n += c.inFlight[i].records
		}
		return c.start + c.recorded + uint64(n)
	}
	return c.start + c.recorded
}

// newID returns a unique random ID.
func (c *Core) newID() (id ID) {
	binary.BigEndian.PutUint64(id[:8], c.random64())
	binary.BigEndian.PutUint64(id[8:], c.random64())
	return id
}
