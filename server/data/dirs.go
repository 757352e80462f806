package data

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
	"github.com/zkd-project/zkd/server/wal"
)

// Options are what Dirs need.
type Options struct {
	Config *config.Config
	FS     vfs.FS
	Logger *zap.Logger
	// Registerer gets the metrics of the log; nil means none.
	Registerer prometheus.Registerer
	// Boot identifies the start of the process: see zab.Notes.
	Boot uint64
	// AcceptLossAfter gives up the part of a damaged log after this zxid; nil means none.
	AcceptLossAfter *jute.Zxid
	// SetAside names the data to be set aside; "" means none: see datadirs.Found.Decide.
	SetAside string
}

// Dirs are the data directories of a server, which they lock, with the log and the snapshots in
// them. They belong to one goroutine.
type Dirs struct {
	o   Options
	cfg *config.Config
	fs  vfs.FS
	log *zap.Logger

	locks []io.Closer // of dataDir and dataLogDir
	wal   *wal.Log    // nil before openLog and after TakeLog
}

// New returns the directories that a configuration names. It does no I/O.
func New(o Options) *Dirs { return &Dirs{o: o, cfg: o.Config, fs: o.FS, log: o.Logger} }

// TakeLog returns the log, which the caller now owns and closes.
func (d *Dirs) TakeLog() *wal.Log {
	log := d.wal
	d.wal = nil
	return log
}

// Close closes the log, unless the caller has taken it, and unlocks the directories.
func (d *Dirs) Close() error {
	var err error
	if d.wal != nil {
		err = d.TakeLog().Close()
	}
	for _, lock := range d.locks {
		err = errors.Join(err, lock.Close())
	}
	return err
}

// LogDir returns where the segments of the log are.
func LogDir(dataLogDir string) string { return filepath.Join(dataLogDir, "journal") }

// lock makes the data directories if it may, and keeps other processes out of
// them.
func (d *Dirs) lock(ctx context.Context) error {
	if !d.cfg.DataDirAutoCreate {
		for _, dir := range []string{d.cfg.DataDir, d.cfg.DataLogDir} {
			if _, err := d.fs.Stat(dir); err != nil {
				return fmt.Errorf("data directory (datadir.autocreate=false): %w", err)
			}
		}
	}
	for _, dir := range []string{d.cfg.DataDir, d.cfg.DataLogDir} {
		if err := d.fs.MkdirAll(dir); err != nil {
			return fmt.Errorf("make data directory: %w", err)
		}
	}
	// The two locks have different names, so that a single directory for both is not
	// locked twice, however the configuration spells it.
	for _, name := range []string{filepath.Join(d.cfg.DataDir, datadirs.LockFile), LogDir(d.cfg.DataLogDir) + ".LOCK"} {
		lock, err := d.lockWithin(ctx, name, lockPatience)
		if errors.Is(err, vfs.ErrLocked) {
			return fmt.Errorf("data directory %s: another zkd uses it: %w", filepath.Dir(name), err)
		}
		if err != nil {
			return fmt.Errorf("lock data directory: %w", err)
		}
		d.locks = append(d.locks, lock)
	}
	return nil
}

// lockPatience is how long a start waits for the data directory: a process that was
// killed a moment ago may not have exited yet.
const lockPatience = 3 * time.Second

func (d *Dirs) lockWithin(ctx context.Context, name string, patience time.Duration) (io.Closer, error) {
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for deadline := time.Now().Add(patience); ; {
		lock, err := d.fs.Lock(name)
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
