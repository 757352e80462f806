package data

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// Recovered is what the directories hold, and what a start has found out about it.
type Recovered struct {
	Core     zab.Recovered
	Identity datadirs.Identity
	Store    *snapshot.Store
	Log      *wal.Recovered
	Tree     *datatree.Tree
	Ensemble zab.State // at the tree's zxid
	// Snapshots are those that the log refers to, up to the last one that can be used.
	Snapshots []wal.SnapRef
	Used      *wal.SnapRef // from which the tree was built; nil for none

	Took, TookSnapshot, TookLog time.Duration
	Replayed                    int64 // entries of the log

	base zab.State // at the snapshot
}

// Recover locks the directories, decides whether they are this server's and complete, and
// builds the state from the newest usable snapshot and the log after it, as far as the log is
// known to be committed. For a single server that is all of it. What the log changes is added
// to changes.
func (d *Dirs) Recover(ctx context.Context, changes *feed.History) (*Recovered, error) {
	start := time.Now()
	found, err := d.lockAndExamine(ctx)
	if err != nil {
		return nil, err
	}
	begin, err := found.Decide(d.o.SetAside)
	if err != nil {
		return nil, err
	}
	if found.CatchUp() {
		if err := writeOwner(d.fs, d.cfg.DataDir, *found.Owner); err != nil {
			return nil, err
		}
	}
	store, err := snapshot.Open(d.cfg.DataDir, snapshot.Options{FS: d.fs, Reserve: 2 * d.cfg.WALSegmentSize})
	if err != nil {
		return nil, err
	}
	r, err := d.recoverState(ctx, store, found, begin, changes)
	if err != nil {
		return nil, err
	}
	if r.Identity, err = d.settleIdentity(found, r.Log); err != nil {
		return nil, err
	}
	if r.Core, err = coreRecovered(r); err != nil {
		return nil, err
	}
	if d.cfg.Replicated() {
		if r.Core.Notes, err = d.recordStart(r.Log.Notes); err != nil {
			return nil, err
		}
	}
	d.moveUnreferenced(ctx, r)
	r.Took = time.Since(start)
	d.log.Info("state recovered", zap.Stringer("zxid", r.Tree.LastZxid()), zap.Int("znodes", r.Tree.Stats().Nodes),
		zap.Int("sessions", r.Tree.NumSessions()), zap.Duration("took", r.Took), zap.Bool("new", r.Log.New))
	if damaged := r.Log.Damaged; damaged != nil {
		d.log.Error("the data was set aside; this server does not count until it has everything from the leader, which happens by itself",
			zap.Error(damaged))
	}
	return r, nil
}

// recoverState opens the log, and builds the state. While it reads the log, it loads the newest snapshot.
func (d *Dirs) recoverState(ctx context.Context, store *snapshot.Store, found *datadirs.Found, begin datadirs.Start, changes *feed.History) (*Recovered, error) {
	ahead := startLoadAhead(ctx, store)
	defer ahead.stop()
	log, err := d.openLog(ctx, store, found, begin)
	if err != nil {
		return nil, err
	}
	st, err := d.loadState(ctx, store, log, ahead, changes)
	var unusable *unusableSnapshots
	if errors.As(err, &unusable) && found.MayReplace(unusable.reasons) && ctx.Err() == nil {
		// Its bytes are proven to be lost here, and the other servers have them.
		if d.wal, log, err = d.wal.SetAside(err); err == nil {
			st, err = d.loadState(ctx, store, log, ahead, changes)
		}
	}
	if err != nil {
		return nil, found.AddAdvice(err)
	}
	return newRecovered(store, log, st), nil
}

func newRecovered(store *snapshot.Store, log *wal.Recovered, st *loaded) *Recovered {
	return &Recovered{Store: store, Log: log, Tree: st.tree, Ensemble: st.ensemble, Snapshots: st.snaps, Used: st.used,
		TookSnapshot: st.took, TookLog: st.tookLog, Replayed: st.replayed, base: st.base}
}

// recordStart records the start of this process in the log, so that other servers can
// recognize an old copy of the log: see zab.Notes.
func (d *Dirs) recordStart(payload []byte) (zab.Notes, error) {
	var notes zab.Notes
	if payload != nil {
		if err := notes.Decode(payload); err != nil {
			return notes, fmt.Errorf("the log's notes: %w", err)
		}
	}
	if !notes.Begin(zab.Start{Boot: d.o.Boot, Position: d.wal.NextSeq()}, d.cfg.ForceSync) {
		return notes, nil
	}
	if err := d.wal.Append([]wal.Record{{Kind: wal.Notes, Payload: notes.Append(nil)}}); err != nil {
		return notes, err
	}
	_, err := d.wal.Sync()
	return notes, err
}

// coreRecovered returns what the core needs to know of the log.
func coreRecovered(r *Recovered) (zab.Recovered, error) {
	core := zab.Recovered{
		Base:        r.base,
		LastZxid:    r.Log.LastZxid,
		Commit:      r.Tree.LastZxid(),
		LogStart:    r.Log.FirstZxid,
		LogBytes:    r.Log.LogBytes,
		Incarnation: r.Identity.Incarnation,
		Damaged:     r.Identity.Unproven,
	}
	if r.Used != nil {
		core.SnapshotBytes = r.Used.Size
	}
	for i := range r.Log.Control {
		if r.Log.Control[i].Zxid > r.base.Zxid {
			core.Control = append(core.Control, EntryOf(&r.Log.Control[i]))
		}
	}
	var err error
	if r.Log.Promise != nil {
		core.Promise, err = decodePromise(r.Log.Promise)
	}
	return core, err
}

// openLog opens the log, or makes one as begin says.
func (d *Dirs) openLog(ctx context.Context, store *snapshot.Store, found *datadirs.Found, begin datadirs.Start) (rec *wal.Recovered, err error) {
	drawn := NewIdentity()
	fresh, repaired := found.NewLog(begin, drawn), found.Replacement(drawn)
	o := wal.Options{
		FS:              d.fs,
		Dir:             LogDir(d.cfg.DataLogDir),
		SegmentSize:     d.cfg.WALSegmentSize,
		NoSync:          !d.cfg.ForceSync,
		FsyncWarn:       d.cfg.FsyncWarningThreshold,
		AcceptLossAfter: d.o.AcceptLossAfter,
		SetAside:        d.cfg.Replicated(),
		Ident:           fresh.Encode(),
		SetAsideIdent:   repaired.Encode(),
		CheckEntry:      checkEntry,
		Check:           func(rec *wal.Recovered) error { return d.checkRecovered(ctx, store, found, rec) },
		Logger:          d.log.Named("wal"),
		Registerer:      d.o.Registerer,
	}
	switch {
	case begin.Aside:
		o.Order = fmt.Errorf("--set-data-aside=%s", d.o.SetAside)
	case begin.Unproven:
		d.log.Warn("there is no data, db.autocreate is false, and nobody made the file initialize: this server waits for the others' data and does not count before",
			zap.String("file", filepath.Join(d.cfg.DataDir, datadirs.InitializeFile)))
	}
	d.wal, rec, err = wal.Open(o)
	if err != nil {
		return nil, found.AddAdvice(err)
	}
	return rec, nil
}

// checkEntry reports whether this version understands an entry of the log.
func checkEntry(r *wal.Record) error {
	e := EntryOf(r)
	return history.CheckReadable(&e)
}

// checkRecovered checks the log as a whole before anything is changed: it must be this
// server's, and no snapshot that it refers to may be of a later version. Even where an
// older snapshot would do, such a snapshot shows that a later version has worked with the
// directory, and going back is the operator's decision.
func (d *Dirs) checkRecovered(ctx context.Context, store *snapshot.Store, found *datadirs.Found, rec *wal.Recovered) error {
	id, err := datadirs.DecodeIdentity(rec.Ident)
	if err != nil {
		return err
	}
	if err := found.OtherServer(&id); err != nil {
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
		d.announceFormats(ctx, rec.Ident)
	}
	return nil
}

// settleIdentity brings the identity in the log and the file IDENTITY in dataDir
// up to date. A log of an earlier format, and that of a server which becomes a
// member, get a new identity record with the same incarnation.
func (d *Dirs) settleIdentity(found *datadirs.Found, rec *wal.Recovered) (datadirs.Identity, error) {
	id, err := datadirs.DecodeIdentity(rec.Ident)
	if err != nil {
		return id, err
	}
	was := id
	id, want := found.Settle(id)
	if found.Owner == nil || *found.Owner != want {
		if found.OwnerError != nil {
			d.log.Error("the file that names the owner of dataDir is damaged; it is written again from the log", zap.Error(found.OwnerError))
		}
		if err := writeOwner(d.fs, d.cfg.DataDir, want); err != nil {
			return id, err
		}
	}
	if id != was {
		if err := d.wal.Append([]wal.Record{IdentityRecord(&id)}); err != nil {
			return id, err
		}
		if _, err := d.wal.Sync(); err != nil {
			return id, err
		}
	}
	if !found.Approved {
		return id, nil
	}
	// The file was heeded, and must not approve of another empty directory later.
	return id, d.fs.Remove(filepath.Join(d.cfg.DataDir, datadirs.InitializeFile))
}

// NewIdentity draws the identity of a new log.
func NewIdentity() (id datadirs.Identity) {
	id.Format = uint8(format.Identity.Writes())
	rand.Read(id.Cluster[:]) // never fails
	rand.Read(id.Incarnation[:])
	rand.Read(id.Secret[:])
	return id
}

// moveUnreferenced moves the snapshots that the log does not refer to out of the way:
// they may be the last copy of something. Only a snapshot that this log took, and whose
// history it covers, is removed: it was superseded, or a crash came before the reference
// to it. A failure does not fail the start.
func (d *Dirs) moveUnreferenced(ctx context.Context, r *Recovered) {
	store := r.Store
	files, err := store.List()
	if err != nil {
		d.log.Warn("can't look for snapshots that the log does not refer to", zap.Error(err))
	}
	for _, f := range files {
		if slices.ContainsFunc(r.Log.Snaps, func(ref wal.SnapRef) bool { return ref.Name == f.Name }) {
			continue
		}
		meta, err := store.Describe(ctx, f.Name)
		if err == nil && datadirs.Superseded(&r.Identity, meta.Incarnation, r.Ensemble.Contains(meta.Zxid)) {
			err = store.Remove(f.Name)
		} else {
			var path string
			if path, err = store.SetAside(f.Name); err == nil {
				d.log.Warn("moved a snapshot that the log does not refer to; it is not needed here, and yours to keep or to remove",
					zap.String("file", path))
			}
		}
		if err != nil {
			d.log.Warn("a snapshot that the log does not refer to could not be moved", zap.String("snapshot", f.Name), zap.Error(err))
		}
	}
}
