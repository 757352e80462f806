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
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// recovered is what a start found on the disk.
type recovered struct {
	core     zab.Recovered
	ident    ident
	ensemble zab.State // at what has been applied
}

// recoverState locks the data directory and builds the state from the newest
// snapshot that is sound and the log behind it: as far as that is known to be
// committed, which for a server of its own is all of it.
func (s *Server) recoverState(ctx context.Context) (*recovered, error) {
	start := time.Now()
	if err := s.lockDataDir(ctx); err != nil {
		return nil, err
	}
	store, err := snapshot.Open(s.cfg.DataDir, snapshot.Options{FS: s.fs, Reserve: 2 * s.cfg.WALSegmentSize})
	if err != nil {
		return nil, err
	}
	log, rec, err := s.openLog(store)
	if err != nil {
		return nil, err
	}
	s.wal = log
	id, err := decodeIdent(rec.Ident)
	if err != nil {
		return nil, err
	}
	st, err := s.loadState(ctx, store, log, rec)
	if errors.Is(err, wal.ErrPurged) && s.ensemble() && ctx.Err() == nil {
		// The snapshot that the history begins with is lost. The others have it.
		if log, rec, err = log.SetAside(err); err != nil {
			return nil, err
		}
		s.wal = log
		if id, err = decodeIdent(rec.Ident); err != nil {
			return nil, err
		}
		st, err = s.loadState(ctx, store, log, rec)
	}
	if err != nil {
		return nil, err
	}
	tree := st.tree
	s.state.tree = tree
	for session, timeoutMs := range tree.Sessions() {
		s.tracker.Add(session, timeoutMs, millis(s.now()))
	}
	if rec.Lost == nil && rec.Damaged == nil {
		if err := removeUnreferenced(store, rec.Snaps); err != nil {
			return nil, err
		}
	}
	s.logWriter = newLogWriter(s, log)
	s.snapshots = newSnapshotter(s, store, upTo(rec.Snaps, st.used), st.used)
	took := time.Since(start)
	s.metrics.load.observe(took, 1)
	s.log.Info("state recovered", zap.Stringer("zxid", tree.LastZxid()), zap.Int("znodes", tree.Stats().Nodes),
		zap.Int("sessions", tree.NumSessions()), zap.Duration("took", took), zap.Bool("new", rec.New))
	if rec.Damaged != nil {
		s.log.Error("the log is damaged and was set aside; this server does not count until it has everything from the leader, which happens by itself",
			zap.Error(rec.Damaged))
	}
	core, err := coreRecovered(rec, st)
	core.Incarnation, core.Damaged = id.incarnation, id.unproven
	if err == nil && s.ensemble() {
		core.Notes, err = s.noteStart(log, rec.Notes)
	}
	return &recovered{core: core, ident: id, ensemble: st.ensemble}, err
}

// noteStart writes to the log that this process begins, so that other servers can
// tell an old copy of the log: see zab.Notes. If the log is not synced, its end may
// be lost honestly, and it does not say anything of starts.
func (s *Server) noteStart(log *wal.Log, payload []byte) (zab.Notes, error) {
	var notes zab.Notes
	if payload != nil {
		if err := notes.Decode(payload); err != nil {
			return notes, fmt.Errorf("the log's notes: %w: were they written by a newer version?", err)
		}
	}
	if !s.cfg.ForceSync {
		notes.Starts = nil
		return notes, nil
	}
	notes.AddStart(zab.Start{Boot: s.boot, Position: log.NextSeq()})
	if err := log.Append([]wal.Record{{Kind: wal.Notes, Payload: notes.Append(nil)}}); err != nil {
		return notes, err
	}
	_, err := log.Sync()
	return notes, err
}

// coreRecovered is what the core needs to know of the log.
func coreRecovered(rec *wal.Recovered, st *loaded) (zab.Recovered, error) {
	core := zab.Recovered{
		Base:     st.base,
		LastZxid: rec.LastZxid,
		Commit:   st.tree.LastZxid(),
		LogStart: rec.FirstZxid,
		LogBytes: rec.LogBytes,
	}
	if st.used != nil {
		core.SnapshotBytes = st.used.Size
	}
	for i := range rec.Control {
		if rec.Control[i].Zxid > st.base.Zxid {
			core.Control = append(core.Control, entryOf(&rec.Control[i]))
		}
	}
	var err error
	if rec.Promise != nil {
		core.Promise, err = decodePromise(rec.Promise)
	}
	return core, err
}

// A promise in the log: the epoch, and the server that got it.
func encodePromise(p zab.Promise) []byte {
	return append(binary.BigEndian.AppendUint32(nil, p.Epoch), byte(p.To))
}

func decodePromise(b []byte) (zab.Promise, error) {
	if len(b) != 5 {
		return zab.Promise{}, fmt.Errorf("the log's promise has %d bytes: was it written by a newer version?", len(b))
	}
	return zab.Promise{Epoch: binary.BigEndian.Uint32(b), To: zab.SID(b[4])}, nil
}

// openLog opens the log, or makes one where the server may begin anew.
func (s *Server) openLog(store *snapshot.Store) (*wal.Log, *wal.Recovered, error) {
	dir := logDir(s.cfg.DataLogDir)
	fresh, repaired := newIdent(), newIdent()
	repaired.unproven = true
	// First, since opening makes a log where there is none.
	if exists, err := wal.Exists(s.fs, dir); err != nil {
		return nil, nil, err
	} else if !exists {
		if fresh.unproven, err = s.beginAnew(store); err != nil {
			return nil, nil, err
		}
	}
	return wal.Open(wal.Options{
		FS:              s.fs,
		Dir:             dir,
		SegmentSize:     s.cfg.WALSegmentSize,
		Ident:           fresh.encode(),
		NoSync:          !s.cfg.ForceSync,
		FsyncWarn:       s.cfg.FsyncWarningThreshold,
		AcceptLossAfter: s.opts.AcceptLossAfter,
		SetAside:        s.ensemble(),
		SetAsideIdent:   repaired.encode(),
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

// beginAnew checks that a server without a log may start with an empty tree. A
// member that lacks the mark which db.autocreate=false asks for may as well: but
// as one that has lost its data, so that it waits for the others'.
func (s *Server) beginAnew(store *snapshot.Store) (unproven bool, err error) {
	files, err := store.List()
	if err != nil {
		return false, err
	}
	if len(files) > 0 {
		return false, fmt.Errorf("there are snapshots in %s, but no log in %s: is dataLogDir right? To begin anew, move both away",
			s.cfg.DataDir, s.cfg.DataLogDir)
	}
	if s.cfg.DBAutoCreate {
		return false, nil
	}
	mark := filepath.Join(s.cfg.DataDir, "initialize")
	switch _, err := s.fs.Stat(mark); {
	case err == nil:
		return false, s.fs.Remove(mark)
	case s.ensemble():
		s.log.Warn("there is no data, db.autocreate is false, and nobody made the file initialize: this server waits for the others' data and does not count before",
			zap.String("file", mark))
		return true, nil
	default:
		return false, fmt.Errorf("there is no data and db.autocreate is false: to begin with an empty tree, make the file %s: %w", mark, err)
	}
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

// loaded is a state built from the disk.
type loaded struct {
	tree     *datatree.Tree
	ensemble zab.State    // at the tree's zxid
	base     zab.State    // at the snapshot
	used     *wal.SnapRef // the snapshot; nil for none
}

// loadState loads the newest snapshot that the log refers to and that is sound,
// and applies the log behind it. An older snapshot serves if the log still has
// everything behind that one; otherwise the damage is reported, never papered
// over with an emptier state.
func (s *Server) loadState(ctx context.Context, store *snapshot.Store, log *wal.Log, rec *wal.Recovered) (*loaded, error) {
	var broken error
	for i := len(rec.Snaps) - 1; i >= 0; i-- {
		ref := rec.Snaps[i]
		tree, state, err := loadSnapshot(ctx, store, ref)
		if err != nil {
			s.log.Error("snapshot can't be used; trying an older one", zap.String("snapshot", ref.Name), zap.Error(err))
			broken = errors.Join(broken, err)
			continue
		}
		return s.replay(ctx, log, rec, &loaded{tree: tree, base: state, used: &ref}, broken)
	}
	return s.replay(ctx, log, rec, &loaded{tree: datatree.New()}, broken)
}

// replay applies what the log has behind the tree's last zxid and what is
// committed. broken is what else is to be said if that fails.
func (s *Server) replay(ctx context.Context, log *wal.Log, rec *wal.Recovered, st *loaded, broken error) (*loaded, error) {
	st.ensemble = st.base.Clone()
	upTo := rec.LastZxid
	if s.ensemble() {
		upTo = rec.CommitHint
	}
	if upTo <= st.tree.LastZxid() {
		return st, nil
	}
	var txn datatree.Txn
	var out datatree.Applied
	err := replayLog(log, st.tree.LastZxid(), upTo, func(e *zab.Entry) error {
		if err := transactionOf(e, st.tree, &txn); err != nil {
			return err
		}
		st.tree.Apply(&txn, &out)
		return errors.Join(st.ensemble.Apply(e), ctx.Err())
	})
	if errors.Is(err, wal.ErrPurged) {
		err = fmt.Errorf("the log in the data directory begins after zxid %v, and no sound snapshot reaches its beginning; "+
			"restore a snapshot from a backup: %w", st.tree.LastZxid(), err)
	}
	if err != nil {
		return nil, errors.Join(err, broken)
	}
	return st, nil
}

var errReplayed = errors.New("replayed as far as wanted")

// replayLog calls fn with the entries of the log behind after, up to upTo.
func replayLog(log interface {
	Replay(jute.Zxid, func(wal.Record) error) error
}, after, upTo jute.Zxid, fn func(*zab.Entry) error) error {
	last := after
	err := log.Replay(after, func(rec wal.Record) error {
		if rec.Zxid > upTo {
			return errReplayed
		}
		e := entryOf(&rec)
		last = e.Zxid
		return fn(&e)
	})
	switch {
	case err != nil && !errors.Is(err, errReplayed):
		return fmt.Errorf("replay the log behind %v: %w", after, err)
	case last != upTo:
		return fmt.Errorf("replay the log behind %v: it ends at %v, and %v is committed", after, last, upTo)
	}
	return nil
}

// The sections of a snapshot. The tree's own meta row stands in snapshot.Meta.
const (
	sectionACLs     = "acls"
	sectionSessions = "sessions"
	sectionNodes    = "nodes"
	extraTree       = "tree"
	extraEnsemble   = "ensemble"
)

// loadSnapshot builds a tree from a snapshot, and the ensemble's state. The tree
// checks its counts and its digest.
func loadSnapshot(ctx context.Context, store *snapshot.Store, ref wal.SnapRef) (tree *datatree.Tree, state zab.State, err error) {
	tables := map[string]datatree.Table{
		sectionACLs:     datatree.TableACLs,
		sectionSessions: datatree.TableSessions,
		sectionNodes:    datatree.TableNodes,
	}
	loader := datatree.NewLoader()
	meta, err := store.Load(ctx, storeRef(ref), func(section string, key, value []byte) error {
		table, ok := tables[section]
		if !ok {
			return fmt.Errorf("unknown section %q", section)
		}
		return loader.Add(datatree.Row{Table: table, Key: key, Value: value})
	})
	if err != nil {
		return nil, state, err
	}
	if err := loader.Add(datatree.Row{Table: datatree.TableMeta, Key: []byte(datatree.MetaKey), Value: meta.Extra[extraTree]}); err != nil {
		return nil, state, fmt.Errorf("snapshot %s: %w", ref.Name, err)
	}
	if tree, err = loader.Finish(); err != nil {
		return nil, state, fmt.Errorf("snapshot %s: %w", ref.Name, err)
	}
	if err := state.Decode(meta.Extra[extraEnsemble]); err != nil {
		return nil, state, fmt.Errorf("snapshot %s: %w", ref.Name, err)
	}
	return tree, state, nil
}

// storeRef is a reference as the store of snapshots has it.
func storeRef(ref wal.SnapRef) snapshot.Ref {
	return snapshot.Ref{Name: ref.Name, Zxid: ref.Zxid, Size: ref.Size, CRC: ref.CRC, Digest: ref.Digest}
}

// digestBytes is a digest as snapshots and their references have it.
func digestBytes(d datatree.Digest) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, d.Hi), d.Lo)
}
