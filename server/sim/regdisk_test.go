package sim

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
)

// small gives the servers disks with a capacity, and no snapshots but those of the script.
func small() Config {
	cfg := quiet(3)
	cfg.WAL, cfg.Capacity, cfg.SnapRetain, cfg.SnapMs, cfg.Clients = true, 60*smallSegment, 3, 5, 0
	return cfg
}

// TestReg_LogFillsTheDisk: a follower's log takes its disk up to what it leaves for a snapshot, waits, and is purged by
// itself, again and again, with power cuts between.
func TestReg_LogFillsTheDisk(t *testing.T) { play(t, small(), logFillsTheDisk) }

func logFillsTheDisk(s *script) {
	leader := s.lead()
	f := s.others(leader)[0]
	s.grow(leader)
	for range 2 {
		s.snapshot(f)
		s.data(leader, 3000)
	}
	s.everywhere()
	s.leave(f, 2)
	waits := 0
	for i := range 8 {
		for j := range 160 { // more than there is room for before the next tick; small ones use a segment up to its end
			s.submitted(leader, setData(40+(i*j)%60))
		}
		s.wait("all is applied, or the log waits", func() bool { return f.disk.real.waits || f.applied == leader.core.LastZxid() })
		if f.disk.real.waits {
			waits++
			if i%3 == 1 {
				s.down(f)
				s.up(f)
			}
		}
		s.everywhere()
	}
	if waits < 4 {
		s.fail("script", "the log has waited %d times", waits)
	}
	if s.stats.MadeRoom == 0 || s.stats.RoomGiven > 0 {
		s.fail("script", "%d snapshots made room, and operators made some %d times", s.stats.MadeRoom, s.stats.RoomGiven)
	}
}

// TestReg_FullDiskWithoutQuorum: a server with a full disk and much that is not committed asks for no snapshot where it has one.
func TestReg_FullDiskWithoutQuorum(t *testing.T) { play(t, small(), fullWithoutQuorum) }

func fullWithoutQuorum(s *script) {
	leader := s.lead()
	s.grow(leader)
	s.everywhere()
	s.snapshot(leader)
	for _, n := range s.others(leader) {
		s.down(n)
	}
	for range 30 {
		s.submitted(leader, setData(3000))
	}
	s.leave(leader, 2)
	s.run(s.cfg.ElectionMs * 3)
}

// grow makes the tree so large that a snapshot takes more than a segment.
func (s *script) grow(leader *node) {
	for i := range 6 {
		op := jute.MultiOp{Type: jute.OpCreate, Path: fmt.Sprintf("/large%d", i), Data: make([]byte, 4000), ACL: openACL}
		s.committed(s.submitted(leader, evaluate.Request{Op: op.Type, Body: op.Append(nil)}))
	}
}

func setData(size int) evaluate.Request {
	op := jute.MultiOp{Type: jute.OpSetData, Path: "/large0", Data: make([]byte, size), Version: -1}
	return evaluate.Request{Op: op.Type, Body: op.Append(nil)}
}

// data writes so many bytes.
func (s *script) data(leader *node, size int) { s.committed(s.submitted(leader, setData(size))) }

// snapshot has a server write a snapshot of everything.
func (s *script) snapshot(n *node) {
	s.everywhere()
	s.freeze(n)
	s.wait("a snapshot", func() bool { b := n.disk.durable.base(); return b != nil && b.zxid == n.applied })
}

// leave leaves room for a snapshot and some segments on a disk.
func (s *script) leave(n *node, segments int64) {
	s.setCapacity(n, n.capacity-n.disk.real.free()+s.roomOf(n).Next+segments*smallSegment)
}
