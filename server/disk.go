package server

import (
	"errors"
	"fmt"
	"io/fs"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/wal"
)

// watchDisk looks at the room on the log's disk and turns writes off before it
// is used up, and on again when there is room. Reads go on, sessions stay: it
// is the operator's turn, not the clients' (zab.md section D.9).
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
	case wal.SpaceStop:
		s.snapshots.tighten()
		s.log.Error("the disk is full: writes are refused until there is room; reads and sessions go on", fields...)
	}
}

// diskFull reports whether writes have to be refused.
func (s *Server) diskFull() bool { return wal.SpaceLevel(s.diskLevel.Load()) == wal.SpaceStop }

// refusedByDisk is the answer to a request while the disk is full, or 0 to take
// it in. What makes room passes, and what ends a session: both are small, and
// there is a reserve for them. A refused write was not done, which clients learn
// from the code that they know for that.
func (r *replica) refusedByDisk(req *evaluate.Request) jute.Code {
	if !r.diskFull() {
		return 0
	}
	switch req.Op {
	case jute.OpDelete, jute.OpDeleteContainer, jute.OpCloseSession:
		return 0
	}
	return jute.ErrNotReadOnly
}
