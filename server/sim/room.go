package sim

import (
	"slices"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/wal"
)

// Room: the segments of a real log and the snapshots of a server share a disk with a capacity, of which something else
// takes more or less. The log waits where it has no room for a segment, and the server makes room by snapshots that
// supersede it. What it leaves, what goes ahead, and what is purged are decisions of packages wal and datadirs.

// smallSegment is the size of the segments on a disk with a capacity: the least that there may be.
const smallSegment = 16 << 10

// shortage is what a process knows of its disk, as of the last tick.
type shortage struct {
	level   wal.SpaceLevel
	forRoom bool      // the next snapshot is to make room
	alone   *snapshot // that a purge of the full disk has left
	waiting int       // ghost: for how many ticks the log has waited, while the disk was as large as it is
	told    uint64    // ghost: the last record that was durable then
	cramped bool      // ghost: something else has left less than a snapshot takes
}

func (n *node) diskFull() bool { return n.full || n.shortage.level >= wal.SpaceStop }

func (n *node) takesDeletes() bool {
	w := n.disk.real
	return w == nil || n.capacity == 0 || w.log.TakesDeletes(n.shortage.level)
}

// bytes returns what the snapshots take. Operators remove those that are out of the way.
func (d *dataDir) bytes() (sum int64) {
	for _, f := range d.files {
		if !f.moved {
			sum += f.bytes
		}
	}
	return sum
}

// fitDisk gives the log what the snapshots leave of the disk.
func (s *Sim) fitDisk(n *node) {
	w := n.disk.real
	switch {
	case w == nil:
	case n.capacity == 0:
		w.fs.SetCapacity(0)
	default:
		w.fs.SetCapacity(max(1, n.capacity-n.disk.data.bytes()))
	}
}

// free returns how much of the disk nothing takes.
func (w *walDisk) free() int64 {
	space, err := w.fs.Space("/log")
	if err != nil {
		panic(err)
	}
	return space.Free
}

// takesSnapshot reports whether there is room for a snapshot, beside what such a file is to leave unless it makes room.
func (s *Sim) takesSnapshot(n *node, bytes int64, forRoom bool) bool {
	w := n.disk.real
	if w == nil || n.capacity == 0 {
		return true
	}
	leave := 2 * w.segment
	if forRoom {
		leave = 0
	}
	return w.free()-bytes >= leave
}

// roomOf returns what a server has to decide how to make room.
func (s *Sim) roomOf(n *node) datadirs.Room {
	w, tree := n.disk.real, n.tree.Stats()
	stats := w.log.Stats()
	r := datadirs.Room{Waits: stats.Lacks != nil, Shared: true, LogFree: w.free(), Free: w.free(), Old: stats.OldBytes,
		Next: datadirs.Estimate(tree.DataSize, tree.Nodes+tree.Sessions), Applied: n.applied}
	if b := n.disk.durable.base(); b != nil {
		r.Last, r.Taken = b.bytes, b.zxid
	}
	return r
}

// watchDisk looks how full the disk is, and makes room on a full one.
func (s *Sim) watchDisk(n *node) {
	w := n.disk.real
	if w == nil || n.capacity == 0 {
		return
	}
	r := s.roomOf(n)
	if n.view == nil && n.made == nil { // else one is being written there
		w.log.Keep(r.Keep())
	}
	_, level, err := w.log.Space(r.Next)
	if err != nil {
		s.fail("D3", "server %d: %v", n.id, err)
	}
	n.shortage.level = level
	s.checkWaits(n, &r)
	if level >= wal.SpaceStop && n.view == nil && n.made == nil {
		s.makeRoom(n, &r)
	}
}

// makeRoom leaves the newest snapshot alone, and takes another one if that makes room.
func (s *Sim) makeRoom(n *node, r *datadirs.Room) {
	if b := n.disk.durable.base(); b != nil && n.shortage.alone != b {
		n.shortage.alone = b
		s.purge(n, true)
	}
	if n.alive && r.WantsSnapshot() {
		if r.Applied == r.Taken {
			s.fail("N3", "server %d asks for a snapshot at %v that is to make room, and has one there", n.id, r.Taken)
		}
		s.stats.MadeRoom++
		n.shortage.forRoom = true
		s.freeze(n)
	}
}

// checkTold checks that a log that waits has told of everything that it has: N1.
func (s *Sim) checkTold(n *node) {
	w := n.disk.real
	if !w.waits {
		return
	}
	if has := w.log.NextSeq() - 1 - w.offset; w.told != has {
		s.fail("N1", "the log of server %d waits with %d records, and has told of %d", n.id, has, w.told)
	}
}

// checkWaits checks that a log does not wait for long, without a record that becomes durable, if its disk has room for three snapshots,
// some segments and what is not applied, and room for a snapshot was left to it: N2.
func (s *Sim) checkWaits(n *node, r *datadirs.Room) {
	w, g := n.disk.real, &n.shortage
	if moved := w.told != g.told; moved || !w.waits {
		g.told, g.waiting = w.told, 0
	}
	if !w.waits {
		return
	}
	if g.waiting++; g.waiting == 1 {
		s.stats.LogWaits++
	}
	need := 7*w.segment + 3*max(r.Next, r.Last)
	h := &n.disk.written
	for i := h.search(n.applied); i < len(h.ents); i++ {
		need += int64(len(h.ents[i].Data)) + 64
	}
	patience := 10 + (8*s.cfg.SnapMs+s.cfg.FsyncUs/100)/s.cfg.TickMs
	if n.capacity >= need && !g.cramped && n.stallUntil < s.now && uint64(g.waiting) > patience {
		s.fail("N2", "the log of server %d has waited for %d ticks, on a disk of %d bytes where %d are enough; level %v, %+v, snapshots %d",
			n.id, g.waiting, n.capacity, need, g.level, *r, len(n.disk.durable.snaps))
	}
}

// takeRoom has something else take nearly all that is left of a disk, for a while: about as much is left as a log that leaves
// room for a snapshot needs to get more by itself, or, sometimes, less.
func (s *Sim) takeRoom(n *node) {
	w := n.disk.real
	others := func(o *node) bool { return o != n && o.capacity < s.cfg.Capacity }
	if !n.alive || w == nil || n.capacity == 0 || slices.ContainsFunc(s.nodes, others) && s.percent(90) {
		return // a leader refuses writes if the disks of a quorum are full
	}
	least := s.roomOf(n).Next + w.segment
	left := least + int64(s.between(0, 4))*w.segment
	if s.percent(20) {
		left = int64(s.between(0, uint64(left)))
	}
	s.setCapacity(n, min(s.cfg.Capacity, n.capacity-w.free()+left))
	n.shortage.cramped = left < least
	s.trace(n, "fault: %d bytes of its disk are left", w.free())
	s.afterUndo(s.between(s.cfg.ElectionMs*2000, s.cfg.ElectionMs*20_000), func() {
		if s.phase == phaseChaos {
			s.setCapacity(n, s.cfg.Capacity)
		}
	})
}

// setCapacity makes the disk of a server as large as that, and with 0 without a limit.
func (s *Sim) setCapacity(n *node, bytes int64) {
	n.capacity, n.shortage = bytes, shortage{}
	s.fitDisk(n)
}

// openReal opens the log of a server. If there is no room for that, an operator gives it some.
func (s *Sim) openReal(n *node) (*wal.Log, *wal.Recovered, error) {
	w := n.disk.real
	for {
		s.fitDisk(n)
		log, found, err := wal.Open(w.options())
		if n.capacity == 0 || !vfs.IsShortage(err) {
			return log, found, err
		}
		s.stats.RoomGiven++
		n.capacity += 4 * w.segment
	}
}
