package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// Place is where the data of a server is, or is to be.
type Place struct {
	DataDir, LogDir string
	Server          zab.SID // 0 for a server without an ensemble

	fs vfs.FS // nil means the operating system's
}

func (p Place) fsys() vfs.FS {
	if p.fs == nil {
		return vfs.OS{}
	}
	return p.fs
}

// State is the data of a server that does not run.
type State struct {
	Tree *datatree.Tree
	// Epoch is the greatest epoch that the servers have promised. Their next one is greater.
	Epoch uint32
	// Voters is how many members with a vote the ensemble has, 0 for a server without one.
	// WriteState does not use it.
	Voters int
	// Secret is that of the passwords of the sessions, with which their clients resume them. If it is
	// zero there are no such passwords, and WriteState draws another one.
	Secret secret.Key
}

// WriteState makes s the data of the servers at these places, which have none: of one server
// without an ensemble, or of all members of one. They start with the same tree, and members
// admit each other, so that none has to get the data from another. A place is complete or
// marked as unfinished: no server starts with a part of the data, and WriteState may be called
// again after a crash, unless that came when some of the places were complete: see Vacant.
func WriteState(ctx context.Context, s *State, places ...Place) error {
	if err := Vacant(places...); err != nil {
		return err
	}
	for _, p := range places {
		if err := p.begin(); err != nil {
			return err
		}
	}
	idents := make([]datadirs.Identity, len(places))
	ensemble := zab.State{Zxid: s.Tree.LastZxid()}
	if z := ensemble.Zxid; z != 0 {
		ensemble.Epochs = []zab.EpochEnd{{Epoch: z.Epoch(), Last: z.Counter()}}
	}
	for i, p := range places {
		idents[i] = newIdent()
		idents[i].Server = p.Server
		if s.Secret != (secret.Key{}) {
			idents[i].Secret = s.Secret
		}
		if p.Server != 0 {
			ensemble.Init = zab.ClusterInit{Cluster: idents[0].Cluster, Secret: idents[0].Secret}
			ensemble.Admitted = append(ensemble.Admitted, zab.Admission{Server: p.Server, Incarnation: idents[i].Incarnation})
		}
	}
	slices.SortFunc(ensemble.Admitted, func(a, b zab.Admission) int { return cmp.Compare(a.Server, b.Server) })
	ref, err := places[0].writeTree(ctx, s.Tree, &ensemble, &idents[0])
	if err != nil {
		return err
	}
	for i, p := range places {
		if err := p.complete(s, &idents[i], ref, places[0]); err != nil {
			return err
		}
	}
	for i, p := range places { // not before all of them have their data
		if err := p.own(datadirs.Owner{Server: idents[i].Server, Incarnation: idents[i].Incarnation}); err != nil {
			return err
		}
	}
	return nil
}

// Vacant returns an error if one of the places has data. It says so if WriteState has completed that one,
// and was interrupted before another one.
func Vacant(places ...Place) error {
	for _, p := range places {
		err := p.Vacant()
		if err == nil {
			continue
		}
		for _, other := range places {
			if _, merr := other.fsys().Stat(other.mark()); merr == nil {
				return fmt.Errorf("%w; an earlier attempt was interrupted before %s was complete: remove both directories, unless a server has worked with the first, and try again", err, other.DataDir)
			}
		}
		return err
	}
	return nil
}

// Vacant returns an error if the place has data, other than what an interrupted WriteState has left.
func (p Place) Vacant() error {
	if info, err := p.fsys().Stat(p.mark()); err == nil {
		if info.Size() > 0 { // those of WriteState are empty
			return fmt.Errorf("an export into %s was interrupted: remove what it has left, or name an empty directory", p.DataDir)
		}
		return nil
	}
	found, err := examine(p.fsys(), &config.Config{DataDir: p.DataDir, DataLogDir: p.LogDir, DBAutoCreate: true})
	if err != nil {
		return err
	}
	return found.Vacant()
}

// begin marks the place as unfinished, if it has no data, and removes what an earlier attempt
// has left.
func (p Place) begin() error {
	for _, dir := range []string{p.DataDir, p.LogDir} {
		if err := p.fsys().MkdirAll(dir); err != nil {
			return err
		}
	}
	if err := p.Vacant(); err != nil {
		return err
	}
	f, err := p.fsys().Create(p.mark())
	if err == nil {
		err = errors.Join(f.Sync(), f.Close(), p.fsys().SyncDir(p.DataDir))
	}
	for _, dir := range []string{filepath.Join(p.DataDir, "snap"), logDir(p.LogDir)} {
		if err == nil {
			err = p.empty(dir)
		}
	}
	if err == nil {
		err = p.remove(filepath.Join(p.DataDir, datadirs.OwnerFile))
	}
	return err
}

// empty removes the files in a directory.
func (p Place) empty(dir string) error {
	entries, err := readDir(p.fsys(), dir)
	for _, e := range entries {
		if err == nil {
			err = p.remove(filepath.Join(dir, e.Name()))
		}
	}
	return err
}

// remove removes a file, if there is one.
func (p Place) remove(name string) error {
	if err := p.fsys().Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (p Place) mark() string { return filepath.Join(p.DataDir, datadirs.UnfinishedFile) }

// writeTree writes the snapshot of a tree.
func (p Place) writeTree(ctx context.Context, tree *datatree.Tree, ensemble *zab.State, id *datadirs.Identity) (ref wal.SnapRef, err error) {
	store, err := snapshot.Open(p.DataDir, snapshot.Options{FS: p.fs})
	if err != nil {
		return ref, err
	}
	view := tree.Freeze()
	defer view.Close()
	return writeView(ctx, store, &state.State{Tree: tree}, view, ensemble.Append(nil), id)
}

// complete writes the rest of the data: the snapshot, if another place has it, and the log that
// refers to it.
func (p Place) complete(s *State, id *datadirs.Identity, ref wal.SnapRef, written Place) error {
	store, err := snapshot.Open(p.DataDir, snapshot.Options{FS: p.fs})
	if err != nil {
		return err
	}
	if p != written {
		source, err := snapshot.Open(written.DataDir, snapshot.Options{FS: p.fs})
		if err == nil {
			err = copyFile(p.fsys(), source.Path(ref.Name), store.Path(ref.Name))
		}
		if err != nil {
			return err
		}
	}
	ref.Installed = true
	log, _, err := wal.Open(wal.Options{FS: p.fsys(), Dir: logDir(p.LogDir), Ident: id.Encode()})
	if err != nil {
		return err
	}
	err = log.Append([]wal.Record{{Kind: wal.Promise, Payload: encodePromise(zab.Promise{Epoch: s.Epoch})}, ref.Record()})
	if err == nil {
		_, err = log.Sync()
	}
	return errors.Join(err, log.Close())
}

// own writes the names of the owner, and ends the writing of data at p.
func (p Place) own(o datadirs.Owner) error {
	fsys := p.fsys()
	if err := writeOwner(fsys, p.DataDir, o); err != nil {
		return err
	}
	if p.Server != 0 {
		if err := vfs.Replace(fsys, filepath.Join(p.DataDir, "myid"), []byte(strconv.Itoa(int(p.Server))+"\n"), ""); err != nil {
			return err
		}
	}
	err := fsys.SyncDir(p.LogDir)
	if err == nil {
		err = fsys.Remove(p.mark())
	}
	if err == nil {
		err = fsys.SyncDir(p.DataDir)
	}
	return err
}

func copyFile(fsys vfs.FS, from, to string) error {
	in, err := fsys.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() // it was only read
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := fsys.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.NewOffsetWriter(out, 0), io.NewSectionReader(in, 0, info.Size()))
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = fsys.SyncDir(filepath.Dir(to))
	}
	return err
}

// ReadState returns the data of a server that does not run, with all of its log: whether the
// last transactions of a member were committed is decided by the next election, which that
// member wins if it is the most advanced one.
func ReadState(ctx context.Context, p Place) (*State, error) {
	return ReadStateAt(ctx, p, history.Moment{})
}

// ReadStateAt is like ReadState for the state as it was at a moment, as far as the log and the
// snapshots reach back.
func ReadStateAt(ctx context.Context, p Place, at history.Moment) (*State, error) {
	s, err := p.offline(nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	dirs, err := s.lockAndExamine(ctx)
	if err != nil {
		return nil, err
	}
	store, rec, err := s.openOffline(ctx, dirs)
	if err != nil {
		return nil, err
	}
	if at != (history.Moment{}) {
		if err := s.cutHistory(ctx, store, rec, at); err != nil {
			return nil, err
		}
	}
	st, err := s.loadState(ctx, store, rec, nil, nil)
	if err != nil {
		return nil, err
	}
	id, err := datadirs.DecodeIdentity(rec.Ident)
	if err != nil {
		return nil, err
	}
	promise := zab.Promise{}
	if rec.Promise != nil {
		promise, err = decodePromise(rec.Promise)
	}
	state := StateOf(st.tree, &st.ensemble, id.Secret)
	state.Epoch = max(state.Epoch, promise.Epoch)
	return state, err
}

// offline returns the data at p of a server that does not run. It has to be closed.
func (p Place) offline(logger *zap.Logger) (*storage, error) {
	cfg, _, err := config.Default(func(string) string { return "" }, config.Override("dataDir", p.DataDir), config.Override("dataLogDir", p.LogDir))
	if err != nil {
		return nil, err
	}
	cfg.DataDirAutoCreate = false
	if logger == nil {
		logger = zap.NewNop()
	}
	return newStorage(cfg, logger, monitor.NewMetrics(), vfs.OS{}), nil
}

// lockAndExamine keeps other processes out of the directories, and examines them.
func (s *storage) lockAndExamine(ctx context.Context) (*datadirs.Found, error) {
	if err := s.lockDataDir(ctx); err != nil {
		return nil, err
	}
	return examine(s.fs, s.cfg)
}

// openOffline opens the store of snapshots and the log, which must be there.
func (s *storage) openOffline(ctx context.Context, dirs *datadirs.Found) (*snapshot.Store, *wal.Recovered, error) {
	begin, err := dirs.Decide("")
	if err == nil && begin.New {
		err = fault.New(fault.Missing, s.cfg.DataDir, errors.New("there is no data of zkd"))
	}
	if err != nil {
		return nil, nil, err
	}
	store, err := snapshot.Open(s.cfg.DataDir, snapshot.Options{})
	if err != nil {
		return nil, nil, err
	}
	rec, err := s.openLog(ctx, store, dirs, begin)
	return store, rec, err
}

// ReadSnapshot returns the state in a snapshot, such as a backup, in a file of any name.
func ReadSnapshot(ctx context.Context, path string) (*State, error) {
	store := snapshot.ReadingFrom(vfs.OS{}, filepath.Dir(path))
	ref, err := refOf(ctx, store, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	tree, ensemble, err := history.Load(ctx, store, storeRef(ref))
	if err != nil {
		return nil, err
	}
	meta, err := store.Describe(ctx, ref.Name)
	if err != nil {
		return nil, err
	}
	secret, err := history.SecretOf(&meta)
	return StateOf(tree, &ensemble, secret), err
}

// StateOf returns the state of a tree and of what the history says of the ensemble. key is the secret
// of the session passwords, unless the history has one.
func StateOf(tree *datatree.Tree, ensemble *zab.State, key secret.Key) *State {
	if ensemble.Seeded() {
		key = ensemble.Init.Secret
	}
	return &State{Tree: tree, Epoch: tree.LastZxid().Epoch(), Voters: voters(ensemble), Secret: key}
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
func (s *storage) cutHistory(ctx context.Context, store *snapshot.Store, rec *wal.Recovered, at history.Moment) error {
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
	err := s.wal.Replay(last, func(r wal.Record) error {
		e := entryOf(&r)
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
