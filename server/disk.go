package server

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

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
// take them, with a quarter of a segment, or 1 MiB, to spare. What remains is for the closes, and for
// the records of elections, which have room of their own in each segment.

// disk is the disk of the log.
type disk struct {
	*life
	level     atomic.Int32 // wal.SpaceLevel
	logWriter *logWriter   // set by the start
}

func (d *disk) at() wal.SpaceLevel { return wal.SpaceLevel(d.level.Load()) }

// look finds out how much room there is, and reports whether that has become scarce.
// snapshot is the size of the last snapshot.
func (d *disk) look(snapshot int64) (tight bool) {
	space, level, err := d.logWriter.Space(snapshot)
	if errors.Is(err, fs.ErrNotExist) {
		// Somebody removed it: what is written goes to files without a name, which
		// the next start will not find.
		d.fail(fmt.Errorf("the directory of the log is gone: %w", err))
		return false
	}
	if err != nil {
		d.log.Warn("can't tell how full the disk is", zap.Error(err))
		return false
	}
	if was := wal.SpaceLevel(d.level.Swap(int32(level))); was == level {
		return false
	}
	fields := []zap.Field{zap.String("dir", d.cfg.DataLogDir), zap.Int64("free_bytes", space.Free), zap.Int64("total_bytes", space.Total)}
	switch level {
	case wal.SpaceOK:
		d.log.Info("the disk has enough room", fields...)
	case wal.SpaceWarn:
		d.log.Warn("the disk is getting full: make room before writes have to stop", fields...)
	case wal.SpaceStop, wal.SpaceOut:
		d.log.Error("the disk is full: make room. A leader, or a server of its own, refuses writes until there is", fields...)
	}
	return level != wal.SpaceOK
}

// Full implements replica.Disk: there is too little room for writes.
func (d *disk) Full() bool { return d.at() >= wal.SpaceStop }

// RoomForDeletes implements replica.Disk.
func (d *disk) RoomForDeletes() bool {
	leastReserve := min(1<<20, d.cfg.WALSegmentSize/4)
	return d.at() < wal.SpaceOut || d.logWriter.Reserve() >= leastReserve
}

// watchDisk looks at the disk.
func (s *Server) watchDisk() {
	if s.disk.look(s.snapshots.size.Load()) {
		s.snapshots.tighten()
	}
}

// refusesWrites reports whether this server leads and refuses writes for want of
// room.
func (s *Server) refusesWrites() bool { return s.leads() && (s.disk.Full() || s.quorumFull.Load()) }

// diskRemark says in words what operators are shown of that, "" if all is well.
func (s *Server) diskRemark() string {
	switch full := s.disk.Full(); {
	case full && s.leads():
		return "full: the server refuses writes"
	case full:
		return "full: a leader would refuse writes"
	case s.refusesWrites():
		return "full on too many servers for a quorum: the server refuses writes"
	}
	return ""
}
