package server

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/wal"
)

// A server turns writes off before the disk of its log is full: it can then still write
// the deletes that free space, and needs no repair (zab.md section D.9). Reads and
// sessions continue, since the operator has to act, not the clients. Each server checks
// its own disk: the bytes and the inodes that are left. A leader decides about writes: with a full disk it hands over to a server
// that has room. It refuses writes if there is none, or if the voters whose disks have
// room are no quorum.
//
// While writes are refused, these requests are accepted:
//
//   - delete, if it succeeds: a failed one is answered without a transaction.
//     Nothing is created meanwhile, so each node is deleted at most once, and all
//     deletes together take about as much of the log as a snapshot of the nodes.
//     Writes are turned off when the room left is that size plus two segments.
//     So is a multi that only deletes.
//   - closeSession, for the same reason: each session is closed once.
//   - new sessions, but as local ones, which write nothing to the log: see
//     answerConnect. So no number of clients can use up the reserve. While the
//     leader can hand over, no sessions are opened: a local session ends when its
//     client moves to another server.
//
// When the disk has less than a segment left, as when something else fills it, deletes
// are accepted only while the existing files of the log can hold them with a quarter of a
// segment, or 1 MiB, to spare. The rest is for closeSession, and for the records of
// elections, which have reserved room in each segment.

// disk is the disk of the log.
type disk struct {
	cfg       *config.Config
	log       *zap.Logger
	now       func() time.Duration
	fail      func(error)
	level     atomic.Int32 // wal.SpaceLevel
	full      base.Since   // there is too little room for writes
	inodes    atomic.Bool  // it is inodes that are too few
	logWriter *logWriter   // set by the start
}

func (d *disk) at() wal.SpaceLevel { return wal.SpaceLevel(d.level.Load()) }

// update checks the room on the disk, and reports whether it has become scarce. snapshot is
// how much of it a snapshot would take.
func (d *disk) update(snapshot int64) (tight bool) {
	space, level, err := d.logWriter.Space(snapshot)
	if errors.Is(err, fs.ErrNotExist) {
		// The directory was removed: records go to files without a name, which the next
		// start will not find.
		d.fail(fmt.Errorf("the directory of the log is gone: %w", err))
		return false
	}
	if err != nil {
		d.log.Warn("can't tell how full the disk is", zap.Error(err))
		return false
	}
	d.full.Set(level >= wal.SpaceStop, d.now())
	d.inodes.Store(level >= wal.SpaceStop && wal.InodeLevel(space) == level)
	if was := wal.SpaceLevel(d.level.Swap(int32(level))); was == level {
		return false
	}
	fields := []zap.Field{zap.String("dir", d.cfg.DataLogDir), zap.Int64("free_bytes", space.Free), zap.Int64("total_bytes", space.Total)}
	if space.Inodes > 0 {
		fields = append(fields, zap.Int64("free_inodes", space.FreeInodes))
	}
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

// lacks names what a full disk has too little of, "" if it is not full.
func (d *disk) lacks() string {
	switch {
	case !d.Full():
		return ""
	case d.inodes.Load():
		return "inodes"
	}
	return "bytes"
}

// Full implements replica.Disk. It reports whether there is too little room for writes.
func (d *disk) Full() bool { return d.at() >= wal.SpaceStop }

// RoomForDeletes implements replica.Disk.
func (d *disk) RoomForDeletes() bool {
	return d.logWriter.log.TakesDeletes(d.at())
}
