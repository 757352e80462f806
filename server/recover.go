package server

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// recovered is what a start found on the disk.
type recovered struct {
	core  zab.Recovered
	ident datadirs.Identity
	store *snapshot.Store
	log   *wal.Recovered
	state *loaded

	changes *feed.History // by the part of the log that was applied
}

// recoverState locks the data directories, decides whether they are this server's and
// complete, and builds the state from the newest usable snapshot and the log after it, as
// far as the log is known to be committed. For a single server that is all of it.
func (s *storage) recoverState(ctx context.Context) (*recovered, error) {
	start := time.Now()
	if err := s.lockDataDir(ctx); err != nil {
		return nil, err
	}
	dirs, err := examine(s.fs, s.cfg)
	if err != nil {
		return nil, err
	}
	begin, err := dirs.Decide(s.setAside)
	if err != nil {
		return nil, err
	}
	if dirs.CatchUp() {
		if err := writeOwner(s.fs, s.cfg.DataDir, *dirs.Owner); err != nil {
			return nil, err
		}
	}
	store, err := snapshot.Open(s.cfg.DataDir, snapshot.Options{FS: s.fs, Reserve: 2 * s.cfg.WALSegmentSize})
	if err != nil {
		return nil, err
	}
	ahead := startLoadAhead(ctx, store)
	defer ahead.stop()
	rec, err := s.openLog(ctx, store, dirs, begin)
	if err != nil {
		return nil, err
	}
	changes := feed.New(int(s.cfg.FeedHistory), 0)
	if !s.cfg.Replicated() {
		changes.Alone()
	}
	st, err := s.loadState(ctx, store, rec, ahead, changes)
	var unusable *unusableSnapshots
	if errors.As(err, &unusable) && dirs.MayReplace(unusable.reasons) && ctx.Err() == nil {
		// Its bytes are proven to be lost here, and the other servers have them.
		if s.wal, rec, err = s.wal.SetAside(err); err == nil {
			st, err = s.loadState(ctx, store, rec, ahead, changes)
		}
	}
	if err != nil {
		return nil, dirs.AddAdvice(err)
	}
	id, err := s.settleIdentity(dirs, rec)
	if err != nil {
		return nil, err
	}
	core, err := coreRecovered(rec, st)
	core.Incarnation, core.Damaged = id.Incarnation, id.Unproven
	if err == nil && s.cfg.Replicated() {
		core.Notes, err = s.recordStart(rec.Notes)
	}
	if err != nil {
		return nil, err
	}
	s.moveUnreferenced(ctx, store, rec, id, st)
	s.logRecovery(rec, st, time.Since(start))
	return &recovered{core: core, ident: id, store: store, log: rec, state: st, changes: changes}, nil
}

// logRecovery logs the result of the recovery.
func (s *storage) logRecovery(rec *wal.Recovered, st *loaded, took time.Duration) {
	s.metrics.Load.Observe(took, 1)
	s.log.Info("state recovered", zap.Stringer("zxid", st.tree.LastZxid()), zap.Int("znodes", st.tree.Stats().Nodes),
		zap.Int("sessions", st.tree.NumSessions()), zap.Duration("took", took), zap.Bool("new", rec.New))
	if rec.Damaged != nil {
		s.log.Error("the data was set aside; this server does not count until it has everything from the leader, which happens by itself",
			zap.Error(rec.Damaged))
	}
}

// recordStart records the start of this process in the log, so that other servers can
// recognize an old copy of the log: see zab.Notes. If the log is not synced, a crash may
// lose its end, and it does not record starts.
func (s *storage) recordStart(payload []byte) (zab.Notes, error) {
	var notes zab.Notes
	if payload != nil {
		if err := notes.Decode(payload); err != nil {
			return notes, fmt.Errorf("the log's notes: %w", err)
		}
	}
	if !s.cfg.ForceSync {
		notes.Starts = nil
		return notes, nil
	}
	notes.AddStart(zab.Start{Boot: s.boot, Position: s.wal.NextSeq()})
	if err := s.wal.Append([]wal.Record{{Kind: wal.Notes, Payload: notes.Append(nil)}}); err != nil {
		return notes, err
	}
	_, err := s.wal.Sync()
	return notes, err
}

// coreRecovered returns what the core needs to know of the log.
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

func decodePromise(b []byte) (zab.Promise, error) {
	if len(b) != 5 {
		return zab.Promise{}, fmt.Errorf("the log's promise has %d bytes, not 5", len(b))
	}
	return zab.Promise{Epoch: binary.BigEndian.Uint32(b), To: zab.SIDOf(b[4])}, nil
}

// openLog opens the log, or makes one as begin says.
func (s *storage) openLog(ctx context.Context, store *snapshot.Store, dirs *datadirs.Found, begin datadirs.Start) (rec *wal.Recovered, err error) {
	drawn := newIdent()
	fresh, repaired := dirs.NewLog(begin, drawn), dirs.Replacement(drawn)
	o := wal.Options{
		FS:              s.fs,
		Dir:             logDir(s.cfg.DataLogDir),
		SegmentSize:     s.cfg.WALSegmentSize,
		NoSync:          !s.cfg.ForceSync,
		FsyncWarn:       s.cfg.FsyncWarningThreshold,
		AcceptLossAfter: s.acceptLossAfter,
		SetAside:        s.cfg.Replicated(),
		Ident:           fresh.Encode(),
		SetAsideIdent:   repaired.Encode(),
		CheckEntry:      checkEntry,
		Check:           func(rec *wal.Recovered) error { return s.checkRecovered(ctx, store, dirs, rec) },
		Logger:          s.log.Named("wal"),
		Registerer:      s.registry,
	}
	switch {
	case begin.Aside:
		o.Order = fmt.Errorf("--set-data-aside=%s", s.setAside)
	case begin.Unproven:
		s.log.Warn("there is no data, db.autocreate is false, and nobody made the file initialize: this server waits for the others' data and does not count before",
			zap.String("file", filepath.Join(s.cfg.DataDir, datadirs.InitializeFile)))
	}
	s.wal, rec, err = wal.Open(o)
	if err != nil {
		return nil, dirs.AddAdvice(err)
	}
	return rec, nil
}

// checkEntry reports whether this version understands an entry of the log.
func checkEntry(r *wal.Record) error {
	e := entryOf(r)
	return history.CheckReadable(&e)
}

// checkRecovered checks the log as a whole before anything is changed: it must be this
// server's, and no snapshot that it refers to may be of a later version. Even where an
// older snapshot would do, such a snapshot shows that a later version has worked with the
// directory, and going back is the operator's decision.
func (s *storage) checkRecovered(ctx context.Context, store *snapshot.Store, dirs *datadirs.Found, rec *wal.Recovered) error {
	id, err := datadirs.DecodeIdentity(rec.Ident)
	if err != nil {
		return err
	}
	if err := dirs.OtherServer(&id); err != nil {
		return err
	}
	if rec.Promise != nil {
		if _, err := decodePromise(rec.Promise); err != nil {
			return err
		}
	}
	for _, ref := range rec.Snaps {
		if _, err := store.Describe(ctx, ref.Name); fault.KindOf(err) == fault.Newer {
			return err
		}
	}
	if !rec.New {
		s.announceFormats(ctx, rec.Ident)
	}
	return nil
}

// settleIdentity brings the identity in the log and the file IDENTITY in dataDir
// up to date. A log of an earlier format, and that of a server which becomes a
// member, get a new identity record with the same incarnation.
func (s *storage) settleIdentity(dirs *datadirs.Found, rec *wal.Recovered) (datadirs.Identity, error) {
	id, err := datadirs.DecodeIdentity(rec.Ident)
	if err != nil {
		return id, err
	}
	was := id
	id, want := dirs.Settle(id)
	if dirs.Owner == nil || *dirs.Owner != want {
		if dirs.OwnerError != nil {
			s.log.Error("the file that names the owner of dataDir is damaged; it is written again from the log", zap.Error(dirs.OwnerError))
		}
		if err := writeOwner(s.fs, s.cfg.DataDir, want); err != nil {
			return id, err
		}
	}
	if id != was {
		if err := s.wal.Append([]wal.Record{identRecord(&id)}); err != nil {
			return id, err
		}
		if _, err := s.wal.Sync(); err != nil {
			return id, err
		}
	}
	if !dirs.Approved {
		return id, nil
	}
	// The file was heeded, and must not approve of another empty directory later.
	return id, s.fs.Remove(filepath.Join(s.cfg.DataDir, datadirs.InitializeFile))
}

// newIdent draws the identity of a new log.
func newIdent() (id datadirs.Identity) {
	id.Format = uint8(format.Identity.Writes())
	rand.Read(id.Cluster[:]) // never fails
	rand.Read(id.Incarnation[:])
	rand.Read(id.Secret[:])
	return id
}

// refsUpTo returns the references up to the one that was used. The later ones can't be used,
// and must not count when old snapshots are removed.
func refsUpTo(refs []wal.SnapRef, used *wal.SnapRef) []wal.SnapRef {
	n := len(refs)
	for n > 0 && (used == nil || refs[n-1].Zxid > used.Zxid) {
		n--
	}
	return refs[:n]
}

// moveUnreferenced moves the snapshots that the log does not refer to out of the way:
// they may be the last copy of something. Only a snapshot that this log took, and whose
// history it covers, is removed: it was superseded, or a crash came before the reference
// to it. A failure does not fail the start.
func (s *storage) moveUnreferenced(ctx context.Context, store *snapshot.Store, rec *wal.Recovered, id datadirs.Identity, st *loaded) {
	files, err := store.List()
	if err != nil {
		s.log.Warn("can't look for snapshots that the log does not refer to", zap.Error(err))
	}
	for _, f := range files {
		if slices.ContainsFunc(rec.Snaps, func(r wal.SnapRef) bool { return r.Name == f.Name }) {
			continue
		}
		meta, err := store.Describe(ctx, f.Name)
		if err == nil && datadirs.Superseded(&id, meta.Incarnation, st.ensemble.Contains(meta.Zxid)) {
			err = store.Remove(f.Name)
		} else {
			var path string
			if path, err = store.SetAside(f.Name); err == nil {
				s.log.Warn("moved a snapshot that the log does not refer to; it is not needed here, and yours to keep or to remove",
					zap.String("file", path))
			}
		}
		if err != nil {
			s.log.Warn("a snapshot that the log does not refer to could not be moved", zap.String("snapshot", f.Name), zap.Error(err))
		}
	}
}

// loaded is a state built from the disk.
type loaded struct {
	tree     *datatree.Tree
	ensemble zab.State     // at the tree's zxid
	base     zab.State     // at the snapshot
	used     *wal.SnapRef  // the snapshot; nil for none
	took     time.Duration // to load the snapshot
	replayed int64         // entries of the log that were applied
}

// unusableSnapshots means that the state can't be built: snapshots that the log refers to
// can't be used, and the log does not reach back to an older one.
type unusableSnapshots struct {
	reasons []fault.Kind // for each of them
	cause   error        // for each of them, and why the log does not suffice
}

func (e *unusableSnapshots) Error() string { return e.cause.Error() }

func (e *unusableSnapshots) Unwrap() error { return e.cause }

// loadState loads the newest usable snapshot that the log refers to, and applies the log
// after it. An older snapshot serves if the log has everything after it: then nothing is
// lost, and the unusable files are left alone. Otherwise the error is an
// *unusableSnapshots. A snapshot of a later version is always an error. What the log changes is added
// to changes. Both ahead and changes may be nil.
func (s *storage) loadState(ctx context.Context, store *snapshot.Store, rec *wal.Recovered, ahead *loadAhead, changes *feed.History) (*loaded, error) {
	unusable := &unusableSnapshots{}
	var st *loaded
	for _, ref := range slices.Backward(rec.Snaps) {
		var err error
		if st, err = s.loadReferenced(ctx, store, ref, ahead); err == nil {
			break
		}
		kind := fault.KindOf(err)
		if kind == fault.Newer || kind == 0 {
			return nil, err
		}
		s.log.Error("snapshot can't be used; trying an older one", zap.String("snapshot", ref.Name), zap.Stringer("reason", kind), zap.Error(err))
		unusable.reasons = append(unusable.reasons, kind)
		unusable.cause = errors.Join(unusable.cause, err)
	}
	if st == nil {
		ahead.stop()
		st = &loaded{tree: datatree.New()}
	}
	s.metrics.LoadSnapshot.Observe(st.took, 1)
	began := time.Now()
	st, err := s.replay(ctx, rec, st, changes)
	if err == nil {
		s.metrics.LoadLog.Observe(time.Since(began), 1)
		s.metrics.LoadedTxns.Observe(time.Duration(st.replayed), 1)
	}
	if !errors.Is(err, wal.ErrPurged) {
		return st, err
	}
	if unusable.cause == nil { // the log begins too late, and refers to no snapshot
		return nil, err
	}
	unusable.cause = errors.Join(fmt.Errorf("the state can't be built: the log begins after zxid %v, and no snapshot that can be used reaches so far: restore one from a backup", rec.FirstZxid),
		unusable.cause)
	return nil, unusable
}

// loadReferenced loads a snapshot that the log refers to, if ahead has not done so. A snapshot
// that was moved away as unreferenced, by a log that this one has replaced, is taken back.
func (s *storage) loadReferenced(ctx context.Context, store *snapshot.Store, ref wal.SnapRef, ahead *loadAhead) (*loaded, error) {
	st := ahead.take(storeRef(ref))
	if st != nil {
		st.used = &ref
		return st, nil
	}
	st = &loaded{used: &ref}
	began := time.Now()
	var err error
	st.tree, st.base, err = history.Load(ctx, store, storeRef(ref))
	if fault.KindOf(err) == fault.Missing {
		back, moved := store.Reclaim(ctx, storeRef(ref))
		if moved != nil || !back {
			return nil, errors.Join(err, moved)
		}
		s.log.Warn("took a snapshot back that had been moved away as unreferenced", zap.String("snapshot", ref.Name))
		st.tree, st.base, err = history.Load(ctx, store, storeRef(ref))
	}
	st.took = time.Since(began)
	if err != nil {
		return nil, err
	}
	return st, nil
}

// replay applies the committed entries of the log after the tree's last zxid.
func (s *storage) replay(ctx context.Context, rec *wal.Recovered, st *loaded, changes *feed.History) (*loaded, error) {
	st.ensemble = st.base.Clone()
	upTo := rec.LastZxid
	if s.cfg.Replicated() {
		upTo = rec.CommitHint
	}
	after := st.tree.LastZxid()
	state := history.State{Tree: st.tree, Ensemble: st.ensemble}
	if changes != nil {
		// A change takes about as much room there as in the log: what is older would be dropped again.
		from := max(after, min(upTo, s.wal.Before(2*s.cfg.FeedHistory)))
		changes.Reset(from)
		state.Applied = func(txn *datatree.Txn, out *datatree.Applied) {
			if txn.Zxid > from {
				changes.Add(txn, out, st.tree.LastZxid())
			}
		}
	}
	if upTo <= after {
		return st, nil
	}
	n, err := state.Replay(func(add func(*zab.Entry) error) error {
		return readLog(s.wal, after, upTo, func(e *zab.Entry) error { return errors.Join(add(e), ctx.Err()) })
	})
	if err != nil {
		err = fmt.Errorf("replay the log after %v: %w", after, err)
	}
	st.ensemble, st.replayed = state.Ensemble, n
	return st, err
}

var errReplayed = errors.New("replayed as far as wanted")

// readLog calls fn with the entries of the log after zxid after, up to upTo.
func readLog(log interface {
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
		return err
	case last != upTo:
		return fmt.Errorf("it ends at %v, and %v is committed", last, upTo)
	}
	return nil
}

// storeRef converts a reference for the store of snapshots.
func storeRef(ref wal.SnapRef) snapshot.Ref {
	return snapshot.Ref{Name: ref.Name, Zxid: ref.Zxid, Size: ref.Size, CRC: ref.CRC, Digest: ref.Digest}
}
