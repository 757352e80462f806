package data

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// loaded is a state built from the disk.
type loaded struct {
	tree     *datatree.Tree
	ensemble zab.State     // at the tree's zxid
	base     zab.State     // at the snapshot
	used     *wal.SnapRef  // the snapshot; nil for none
	snaps    []wal.SnapRef // the references up to used
	took     time.Duration // to load the snapshot
	tookLog  time.Duration // to replay the log
	replayed int64         // entries of the log that were applied
}

// unusableSnapshots means that the state can't be built: snapshots that the log refers to
// can't be used, and the log does not reach back to an older one.
type unusableSnapshots struct {
	reasons []error // for each of them
	cause   error   // why the log does not suffice
}

func (e *unusableSnapshots) Error() string { return errors.Join(e.Unwrap()...).Error() }

func (e *unusableSnapshots) Unwrap() []error { return append([]error{e.cause}, e.reasons...) }

// loadState loads the newest usable snapshot that the log refers to, and applies the log
// after it. An older snapshot serves if the log has everything after it: then nothing is
// lost, and the unusable files are left alone. Otherwise the error is an
// *unusableSnapshots. A snapshot of a later version is always an error. What the log changes is added
// to changes. Both ahead and changes may be nil.
func (d *Dirs) loadState(ctx context.Context, store *snapshot.Store, rec *wal.Recovered, ahead *loadAhead, changes *feed.History) (*loaded, error) {
	var st *loaded
	used, unusable, err := datadirs.NewestUsable(rec.Snaps, func(ref wal.SnapRef) (err error) {
		st, err = d.loadReferenced(ctx, store, ref, ahead)
		if kind := fault.KindOf(err); datadirs.OlderServes(kind) {
			d.log.Error("snapshot can't be used; trying an older one", zap.String("snapshot", ref.Name), zap.Stringer("reason", kind), zap.Error(err))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if st == nil {
		ahead.stop()
		st = &loaded{tree: datatree.New()}
	}
	st.snaps = rec.Snaps[:used+1]
	began := time.Now()
	st, err = d.replay(ctx, rec, st, changes)
	st.tookLog = time.Since(began)
	if !errors.Is(err, wal.ErrPurged) {
		return st, err
	}
	if len(unusable) == 0 { // the log begins too late, and refers to no snapshot
		return nil, err
	}
	return nil, &unusableSnapshots{unusable, fmt.Errorf("the state can't be built: the log begins after zxid %v, and no snapshot that can be used reaches so far: restore one from a backup", rec.FirstZxid)}
}

// loadReferenced loads a snapshot that the log refers to, if ahead has not done so. A snapshot
// that was moved away as unreferenced, by a log that this one has replaced, is taken back.
func (d *Dirs) loadReferenced(ctx context.Context, store *snapshot.Store, ref wal.SnapRef, ahead *loadAhead) (*loaded, error) {
	st := ahead.take(StoreRef(ref))
	if st != nil {
		st.used = &ref
		return st, nil
	}
	st = &loaded{used: &ref}
	began := time.Now()
	var err error
	st.tree, st.base, err = history.Load(ctx, store, StoreRef(ref))
	if fault.KindOf(err) == fault.Missing {
		back, moved := store.Reclaim(ctx, StoreRef(ref))
		if moved != nil || !back {
			return nil, errors.Join(err, moved)
		}
		d.log.Warn("took a snapshot back that had been moved away as unreferenced", zap.String("snapshot", ref.Name))
		st.tree, st.base, err = history.Load(ctx, store, StoreRef(ref))
	}
	st.took = time.Since(began)
	if err != nil {
		return nil, err
	}
	return st, nil
}

// replay applies the committed entries of the log after the tree's last zxid.
func (d *Dirs) replay(ctx context.Context, rec *wal.Recovered, st *loaded, changes *feed.History) (*loaded, error) {
	st.ensemble = st.base.Clone()
	upTo := datadirs.Committed(d.cfg.Replicated(), rec.LastZxid, rec.CommitHint)
	after := st.tree.LastZxid()
	state := history.State{Tree: st.tree, Ensemble: st.ensemble}
	if changes != nil {
		// A change takes about as much room there as in the log.
		add := changes.Replay(after, upTo, d.wal.Before(2*d.cfg.FeedHistory))
		state.Applied = func(txn *datatree.Txn, out *datatree.Applied) { add(txn, out, st.tree.LastZxid()) }
	}
	if upTo <= after {
		return st, nil
	}
	n, err := state.Replay(func(add func(*zab.Entry) error) error {
		return readLog(d.wal, after, upTo, func(e *zab.Entry) error { return errors.Join(add(e), ctx.Err()) })
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
		e := EntryOf(&rec)
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

// StoreRef converts a reference for the store of snapshots.
func StoreRef(ref wal.SnapRef) snapshot.Ref {
	return snapshot.Ref{Name: ref.Name, Zxid: ref.Zxid, Size: ref.Size, CRC: ref.CRC, Digest: ref.Digest}
}
