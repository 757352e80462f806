package server

import (
	"errors"
	"fmt"
	"io/fs"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/wal"
)

// A server turns writes off before the disk of its log is used up: then it can
// still write what makes room again, and needs no repair (zab.md section D.9).
// Reads and sessions continue, since it is the operator's turn and not the
// clients'. Each server looks at its own disk. A leader decides about writes: with
// a full disk it hands over to a server that has room, and refuses writes if there
// is none, or if the disks of so many voters are full that the others are no
// quorum.
//
// While writes are refused this much is let through:
//
//   - delete, if it succeeds: a failed one is answered without a transaction.
//     Nothing is created meanwhile, so each node is deleted once at most, and all
//     deletes together take about as much of the log as a snapshot of the nodes.
//     That, and two segments, is the room at which writes are turned off.
//   - closeSession, for the same reason: each session is closed once.
//   - new sessions, but as local ones, which take nothing of the log: see
//     answerConnect. So no number of clients can use the reserve up. While the
//     leader can hand over there are none: a local session ends when its client
//     moves to another server.
//
// When the disk has less than a segment left, as when something else fills it,
// deletes are let through only as long as the files that the log has already can
// take them, with leastReserve to spare. What remains is for the closes, and for
// the records of elections, which have room of their own in each segment.

// watchDisk looks at the room on the log's disk.
func (s *Server) watchDisk() {
	space, level, err := s.logWriter.Space(s.snapshots.size.Load())
	if errors.Is(err, fs.ErrNotExist) {
		// Somebody removed it: what is written goes to files without a name, which
		// the next start will not find.
		s.fail(fmt.Errorf("the directory of the log is gone: %w", err))
		return
	}
	if err != nil {
		s.log.Warn("can't tell how full the disk is", zap.Error(err))
		return
	}
	if was := wal.SpaceLevel(s.diskLevel.Swap(int32(level))); was == level {
		return
	}
	fields := []zap.Field{zap.String("dir", s.cfg.DataLogDir), zap.Int64("free_bytes", space.Free), zap.Int64("total_bytes", space.Total)}
	switch level {
	case wal.SpaceOK:
		s.log.Info("the disk has enough room", fields...)
	case wal.SpaceWarn:
		s.snapshots.tighten()
		s.log.Warn("the disk is getting full: make room before writes have to stop", fields...)
	case wal.SpaceStop, wal.SpaceOut:
		s.snapshots.tighten()
		s.log.Error("the disk is full: make room. A leader, or a server of its own, refuses writes until there is", fields...)
	}
}

// diskFull reports whether there is too little room for writes here.
func (s *Server) diskFull() bool { return wal.SpaceLevel(s.diskLevel.Load()) >= wal.SpaceStop }

// refusesWrites reports whether this server leads and refuses writes for want of
// room.
func (s *Server) refusesWrites() bool { return s.leads() && (s.diskFull() || s.quorumFull.Load()) }

// diskRemark says in words what operators are shown of that, "" if all is well.
func (s *Server) diskRemark() string {
	switch full := s.diskFull(); {
	case full && s.leads():
		return "full: the server refuses writes"
	case full:
		return "full: a leader would refuse writes"
	case s.refusesWrites():
		return "full on too many servers for a quorum: the server refuses writes"
	}
	return ""
}

// leastReserve is how much of the log's files deletes leave when there is no room
// for another segment.
func (s *Server) leastReserve() int64 { return min(1<<20, s.cfg.WALSegmentSize/4) }

// diskDoor is what a leader asks of the disk.
type diskDoor struct{ s *Server }

func (d diskDoor) Full() bool { return d.s.diskFull() }

func (d diskDoor) RoomForDeletes() bool {
	return wal.SpaceLevel(d.s.diskLevel.Load()) < wal.SpaceOut || d.s.logWriter.Reserve() >= d.s.leastReserve()
}
