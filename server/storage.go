package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/wal"
)

// storage is the data of a server on the disk: the directories, which it locks, and the log and
// the snapshots, from which it recovers the state. Tools use it without a server.
type storage struct {
	cfg      *config.Config
	log      *zap.Logger
	metrics  *monitor.Metrics
	fs       vfs.FS
	registry *prometheus.Registry // of all metrics, the log's too
	boot     uint64               // of this start
	// acceptLossAfter and setAside are Options.AcceptLossAfter and SetDataAside.
	acceptLossAfter *jute.Zxid
	setAside        string

	locks []io.Closer // of dataDir and dataLogDir
	wal   *wal.Log    // nil before openLog and after takeLog
}

func newStorage(cfg *config.Config, log *zap.Logger, metrics *monitor.Metrics, fsys vfs.FS) *storage {
	return &storage{cfg: cfg, log: log, metrics: metrics, fs: fsys, registry: prometheus.NewRegistry()}
}

// takeLog returns the log, which the caller now owns and closes.
func (s *storage) takeLog() *wal.Log {
	log := s.wal
	s.wal = nil
	return log
}

// close closes the log, unless another part has taken it, and unlocks the directories.
func (s *storage) close() error {
	var err error
	if s.wal != nil {
		err = s.takeLog().Close()
	}
	for _, lock := range s.locks {
		err = errors.Join(err, lock.Close())
	}
	return err
}

// logDir returns where the segments of the log are.
func logDir(dataLogDir string) string { return filepath.Join(dataLogDir, "journal") }

// lockDataDir makes the data directories if it may, and keeps other processes out of
// them.
func (s *storage) lockDataDir(ctx context.Context) error {
	if !s.cfg.DataDirAutoCreate {
		for _, dir := range []string{s.cfg.DataDir, s.cfg.DataLogDir} {
			if _, err := s.fs.Stat(dir); err != nil {
				return fmt.Errorf("data directory (datadir.autocreate=false): %w", err)
			}
		}
	}
	for _, dir := range []string{s.cfg.DataDir, s.cfg.DataLogDir} {
		if err := s.fs.MkdirAll(dir); err != nil {
			return fmt.Errorf("make data directory: %w", err)
		}
	}
	// The two locks have different names, so that a single directory for both is not
	// locked twice, however the configuration spells it.
	for _, name := range []string{filepath.Join(s.cfg.DataDir, datadirs.LockFile), logDir(s.cfg.DataLogDir) + ".LOCK"} {
		lock, err := s.lockWithin(ctx, name, lockPatience)
		if errors.Is(err, vfs.ErrLocked) {
			return fmt.Errorf("data directory %s: another zkd uses it: %w", filepath.Dir(name), err)
		}
		if err != nil {
			return fmt.Errorf("lock data directory: %w", err)
		}
		s.locks = append(s.locks, lock)
	}
	return nil
}

// lockPatience is how long a start waits for the data directory: a process that was
// killed a moment ago may not have exited yet.
const lockPatience = 3 * time.Second

func (s *storage) lockWithin(ctx context.Context, name string, patience time.Duration) (io.Closer, error) {
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for deadline := time.Now().Add(patience); ; {
		lock, err := s.fs.Lock(name)
		if !errors.Is(err, vfs.ErrLocked) || time.Now().After(deadline) {
			return lock, err
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
