package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// Contents are the data of a server that does not run.
type Contents struct {
	Tree *datatree.Tree
	// Epoch is the greatest epoch that the servers have promised. Their next one is greater.
	Epoch uint32
	// Voters is how many members with a vote the ensemble has, 0 for a server without one.
	// Write does not use it.
	Voters int
	// Secret is that of the passwords of the sessions, with which their clients resume them. If it is
	// zero there are no such passwords, and Write draws another one.
	Secret secret.Key
}

// Read returns the data of a server that does not run, with all of its log: whether the
// last transactions of a member were committed is decided by the next election, which that
// member wins if it is the most advanced one.
func Read(ctx context.Context, p Place) (*Contents, error) {
	return ReadAt(ctx, p, history.Moment{})
}

// ReadAt is like Read for the state as it was at a moment, as far as the log and the
// snapshots reach back.
func ReadAt(ctx context.Context, p Place, at history.Moment) (*Contents, error) {
	d, err := p.offline(nil)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	found, err := d.lockAndExamine(ctx)
	if err != nil {
		return nil, err
	}
	r, err := d.recoverOffline(ctx, found, at)
	if err != nil {
		return nil, err
	}
	c := ContentsOf(r.Tree, &r.Ensemble, r.Identity.Secret)
	c.Epoch = max(c.Epoch, r.Core.Promise.Epoch)
	return c, nil
}

// offline returns the data at p of a server that does not run. It has to be closed.
func (p Place) offline(logger *zap.Logger) (*Dirs, error) {
	cfg, _, err := config.Default(func(string) string { return "" }, config.Override("dataDir", p.DataDir), config.Override("dataLogDir", p.LogDir))
	if err != nil {
		return nil, err
	}
	cfg.DataDirAutoCreate = false
	cfg.WALSegmentSize = cmp.Or(p.SegmentSize, cfg.WALSegmentSize)
	if logger == nil {
		logger = zap.NewNop()
	}
	return New(Options{Config: cfg, FS: vfs.OS{}, Logger: logger}), nil
}

// lockAndExamine keeps other processes out of the directories, and examines them.
func (d *Dirs) lockAndExamine(ctx context.Context) (*datadirs.Found, error) {
	if err := d.lock(ctx); err != nil {
		return nil, err
	}
	return examine(d.fs, d.cfg)
}

// recoverOffline builds the state at a moment from data that must be there. It settles nothing of it.
func (d *Dirs) recoverOffline(ctx context.Context, found *datadirs.Found, at history.Moment) (*Recovered, error) {
	begin, err := found.Decide("")
	if err == nil && begin.New {
		err = fault.New(fault.Missing, d.cfg.DataDir, errors.New("there is no data of zkd"))
	}
	if err != nil {
		return nil, err
	}
	store, err := snapshot.Open(d.cfg.DataDir, snapshot.Options{})
	if err != nil {
		return nil, err
	}
	log, err := d.openLog(ctx, store, found, begin)
	if err != nil {
		return nil, err
	}
	if at != (history.Moment{}) {
		if err := d.cutHistory(ctx, store, log, at); err != nil {
			return nil, err
		}
	}
	st, err := d.loadState(ctx, store, log, nil, nil)
	if err != nil {
		return nil, err
	}
	r := newRecovered(store, log, st)
	if r.Identity, err = datadirs.DecodeIdentity(log.Ident); err != nil {
		return nil, err
	}
	r.Core, err = coreRecovered(r)
	return r, err
}

// ReadSnapshot returns the state in a snapshot, such as a backup, in a file of any name.
func ReadSnapshot(ctx context.Context, path string) (*Contents, error) {
	store := snapshot.ReadingFrom(vfs.OS{}, filepath.Dir(path))
	ref, err := refOf(ctx, store, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	tree, ensemble, err := history.Load(ctx, store, StoreRef(ref))
	if err != nil {
		return nil, err
	}
	meta, err := store.Describe(ctx, ref.Name)
	if err != nil {
		return nil, err
	}
	secret, err := history.SecretOf(&meta)
	return ContentsOf(tree, &ensemble, secret), err
}

// ContentsOf returns the contents of a tree and of what the history says of the ensemble. key is the secret
// of the session passwords, unless the history has one.
func ContentsOf(tree *datatree.Tree, ensemble *zab.State, key secret.Key) *Contents {
	if ensemble.Seeded() {
		key = ensemble.Init.Secret
	}
	return &Contents{Tree: tree, Epoch: tree.LastZxid().Epoch(), Voters: voters(ensemble), Secret: key}
}

// refOf returns the reference that a file fits: see snapshot.Store.RefOf.
func refOf(ctx context.Context, store *snapshot.Store, name string) (wal.SnapRef, error) {
	ref, err := store.RefOf(ctx, name)
	return wal.SnapRef{Name: name, Zxid: ref.Zxid, Size: ref.Size, CRC: ref.CRC, Digest: ref.Digest}, err
}

// voters returns the number of members with a vote. Before a history has a list, all members
// that it has admitted may have one.
func voters(ensemble *zab.State) (n int) {
	if ensemble.Members == nil {
		return len(ensemble.Admitted)
	}
	for _, m := range ensemble.Members.List {
		if !m.Observer && m.Weight > 0 {
			n++
		}
	}
	return n
}

// cutHistory takes what comes after a moment out of what the log has recovered.
func (d *Dirs) cutHistory(ctx context.Context, store *snapshot.Store, rec *wal.Recovered, at history.Moment) error {
	if at.Zxid > rec.LastZxid {
		return fmt.Errorf("zxid %v is not reached: the log ends at %v", at.Zxid, rec.LastZxid)
	}
	rec.Snaps = slices.DeleteFunc(slices.Clone(rec.Snaps), func(ref wal.SnapRef) bool {
		if at.Zxid != 0 {
			return ref.Zxid > at.Zxid
		}
		meta, err := store.Describe(ctx, ref.Name)
		return err != nil || history.LastTimeOf(&meta) > at.Time.UnixMilli()
	})
	last := jute.Zxid(0)
	if n := len(rec.Snaps); n > 0 {
		last = rec.Snaps[n-1].Zxid
	}
	err := d.wal.Replay(last, func(r wal.Record) error {
		e := EntryOf(&r)
		before, err := at.Before(&e)
		if before {
			return errReplayed
		}
		last = e.Zxid
		return errors.Join(err, ctx.Err())
	})
	rec.LastZxid = last
	switch {
	case errors.Is(err, wal.ErrPurged):
		return fmt.Errorf("the log begins after %v, and no snapshot is from before that moment: %w", rec.FirstZxid, err)
	case errors.Is(err, errReplayed), err == nil:
		if last == 0 {
			return errors.New("the history begins after that moment")
		}
		return nil
	}
	return err
}
