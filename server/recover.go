package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/wal"
)

// recoverState locks the data directory and builds the state from the newest
// snapshot that is sound and the log behind it. A server of its own is the
// quorum, so all of its log is committed. It returns the last zxid.
func (s *Server) recoverState(ctx context.Context) (jute.Zxid, error) {
	start := time.Now()
	if err := s.lockDataDir(ctx); err != nil {
		return 0, err
	}
	store, err := snapshot.Open(s.cfg.DataDir, snapshot.Options{FS: s.fs, Reserve: 2 * s.cfg.WALSegmentSize})
	if err != nil {
		return 0, err
	}
	log, rec, err := s.openLog(store)
	if err != nil {
		return 0, err
	}
	s.wal = log
	id, err := decodeIdent(rec.Ident)
	if err != nil {
		return 0, err
	}
	s.keys = session.NewKeys(id.secret)
	tree, used, err := s.loadState(ctx, store, log, rec)
	if err != nil {
		return 0, err
	}
	s.state.tree = tree
	for session, timeoutMs := range tree.Sessions() {
		s.tracker.Add(session, timeoutMs, millis(s.now()))
	}
	if rec.Lost == nil {
		if err := removeUnreferenced(store, rec.Snaps); err != nil {
			return 0, err
		}
	}
	s.logWriter = newLogWriter(s, log)
	s.snapshots = newSnapshotter(s, store, upTo(rec.Snaps, used), used)
	took := time.Since(start)
	s.metrics.load.observe(took, 1)
	s.log.Info("state recovered", zap.Stringer("zxid", tree.LastZxid()), zap.Int("znodes", tree.Stats().Nodes),
		zap.Int("sessions", tree.NumSessions()), zap.Duration("took", took), zap.Bool("new", rec.New))
	return rec.LastZxid, nil
}

// openLog opens the log, or makes one where the server may begin anew.
func (s *Server) openLog(store *snapshot.Store) (*wal.Log, *wal.Recovered, error) {
	dir := logDir(s.cfg.DataLogDir)
	// First, since opening makes a log where there is none.
	if exists, err := wal.Exists(s.fs, dir); err != nil {
		return nil, nil, err
	} else if !exists {
		if err := s.beginAnew(store); err != nil {
			return nil, nil, err
		}
	}
	fresh := newIdent()
	return wal.Open(wal.Options{
		FS:              s.fs,
		Dir:             dir,
		SegmentSize:     s.cfg.WALSegmentSize,
		Ident:           fresh.encode(),
		NoSync:          !s.cfg.ForceSync,
		FsyncWarn:       s.cfg.FsyncWarningThreshold,
		AcceptLossAfter: s.opts.AcceptLossAfter,
		Logger:          s.log.Named("wal"),
		Registerer:      s.registry,
	})
}

// logDir returns where the segments of the log are.
func logDir(dataLogDir string) string { return filepath.Join(dataLogDir, "journal") }

// lockDataDir makes the data directories if it may, and keeps other processes out
// of them.
func (s *Server) lockDataDir(ctx context.Context) error {
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
	// Two names, so that one directory for both is not locked twice, however the
	// configuration spells it.
	for _, name := range []string{filepath.Join(s.cfg.DataDir, "LOCK"), logDir(s.cfg.DataLogDir) + ".LOCK"} {
		lock, err := s.lockWithin(ctx, name, lockPatience)
		if errors.Is(err, vfs.ErrLocked) {
			return fmt.Errorf("data directory %s: another zkd uses it: %w", filepath.Dir(name), err)
		}
		if err != nil {
			return fmt.Errorf("lock data directory: %w", err)
		}
		s.dirLocks = append(s.dirLocks, lock)
	}
	return nil
}

// lockPatience is how long a start waits for the data directory: a process that
// was killed a moment ago may still be on its way out.
const lockPatience = 3 * time.Second

func (s *Server) lockWithin(ctx context.Context, name string, patience time.Duration) (io.Closer, error) {
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

// beginAnew checks that a server without a log may start with an empty tree.
func (s *Server) beginAnew(store *snapshot.Store) error {
	files, err := store.List()
	if err != nil {
		return err
	}
	if len(files) > 0 {
		return fmt.Errorf("there are snapshots in %s, but no log in %s: is dataLogDir right? To begin anew, move both away",
			s.cfg.DataDir, s.cfg.DataLogDir)
	}
	if s.cfg.DBAutoCreate {
		return nil
	}
	mark := filepath.Join(s.cfg.DataDir, "initialize")
	if _, err := s.fs.Stat(mark); err != nil {
		return fmt.Errorf("there is no data and db.autocreate is false: to begin with an empty tree, make the file %s: %w", mark, err)
	}
	return s.fs.Remove(mark)
}

// upTo returns the references up to the one that was used. The later ones have
// proved damaged, and must not count when old snapshots are removed.
func upTo(refs []wal.SnapRef, used *wal.SnapRef) []wal.SnapRef {
	n := len(refs)
	for n > 0 && (used == nil || refs[n-1].Zxid > used.Zxid) {
		n--
	}
	return refs[:n]
}

// removeUnreferenced removes the snapshots that the log knows nothing of: they
// were never finished, or are superseded and their removal was interrupted.
func removeUnreferenced(store *snapshot.Store, refs []wal.SnapRef) error {
	files, err := store.List()
	if err != nil {
		return err
	}
	for _, f := range files {
		if slices.ContainsFunc(refs, func(r wal.SnapRef) bool { return r.Name == f.Name }) {
			continue
		}
		if err := store.Remove(f.Name); err != nil {
			return err
		}
	}
	return nil
}

// loadState loads the newest snapshot that the log refers to and that is sound,
// and applies the log behind it. An older snapshot serves if the log still has
// everything behind that one; otherwise the damage is reported, never papered
// over with an emptier state.
func (s *Server) loadState(ctx context.Context, store *snapshot.Store, log *wal.Log, rec *wal.Recovered) (*datatree.Tree, *wal.SnapRef, error) {
	var broken error
	for i := len(rec.Snaps) - 1; i >= 0; i-- {
		ref := rec.Snaps[i]
		tree, err := loadSnapshot(ctx, store, ref)
		if err != nil {
			s.log.Error("snapshot can't be used; trying an older one", zap.String("snapshot", ref.Name), zap.Error(err))
			broken = errors.Join(broken, err)
			continue
		}
		if err := replay(log, tree); err != nil {
			return nil, nil, errors.Join(err, broken)
		}
		return tree, &ref, nil
	}
	tree := datatree.New()
	if err := replay(log, tree); err != nil {
		return nil, nil, errors.Join(err, broken)
	}
	return tree, nil, nil
}

// replay applies what the log has behind the tree's last zxid.
func replay(log *wal.Log, tree *datatree.Tree) error {
	var txn datatree.Txn
	var out datatree.Applied
	err := log.Replay(tree.LastZxid(), func(r wal.Record) error {
		if err := txn.Decode(r.Payload); err != nil {
			return fmt.Errorf("transaction %v: %w", r.Zxid, err)
		}
		tree.Apply(&txn, &out)
		return nil
	})
	if errors.Is(err, wal.ErrPurged) {
		return fmt.Errorf("the log in the data directory begins after zxid %v, and no sound snapshot reaches its beginning; "+
			"restore a snapshot from a backup: %w", tree.LastZxid(), err)
	}
	if err != nil {
		return fmt.Errorf("replay the log: %w", err)
	}
	return nil
}

// The sections of a snapshot. The tree's own meta row stands in snapshot.Meta.
const (
	sectionACLs     = "acls"
	sectionSessions = "sessions"
	sectionNodes    = "nodes"
	extraTree       = "tree"
)

// loadSnapshot builds a tree from a snapshot. The tree checks its counts and its
// digest.
func loadSnapshot(ctx context.Context, store *snapshot.Store, ref wal.SnapRef) (*datatree.Tree, error) {
	tables := map[string]datatree.Table{
		sectionACLs:     datatree.TableACLs,
		sectionSessions: datatree.TableSessions,
		sectionNodes:    datatree.TableNodes,
	}
	loader := datatree.NewLoader()
	meta, err := store.Load(ctx, snapshot.Ref{Name: ref.Name, Zxid: ref.Zxid, Size: ref.Size, CRC: ref.CRC, Digest: ref.Digest},
		func(section string, key, value []byte) error {
			table, ok := tables[section]
			if !ok {
				return fmt.Errorf("unknown section %q", section)
			}
			return loader.Add(datatree.Row{Table: table, Key: key, Value: value})
		})
	if err != nil {
		return nil, err
	}
	if err := loader.Add(datatree.Row{Table: datatree.TableMeta, Key: []byte(datatree.MetaKey), Value: meta.Extra[extraTree]}); err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", ref.Name, err)
	}
	tree, err := loader.Finish()
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", ref.Name, err)
	}
	return tree, nil
}

// digestBytes is a digest as snapshots and their references have it.
func digestBytes(d datatree.Digest) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, d.Hi), d.Lo)
}
