package data

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

	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// Place is where the data of a server is, or is to be.
type Place struct {
	DataDir, LogDir string
	Server          zab.SID // 0 for a server without an ensemble
	SegmentSize     int64   // of the log, in bytes; 0 means the default

	fs vfs.FS // nil means the operating system's
}

func (p Place) fsys() vfs.FS {
	if p.fs == nil {
		return vfs.OS{}
	}
	return p.fs
}

// Write makes c the data of the servers at these places, which have none: of one server
// without an ensemble, or of all members of one. They start with the same tree, and members
// admit each other, so that none has to get the data from another. A place is complete or
// marked as unfinished: no server starts with a part of the data, and Write may be called
// again after a crash, unless that came when some of the places were complete: see CheckEmpty.
func Write(ctx context.Context, c *Contents, places ...Place) error {
	if err := CheckEmpty(places...); err != nil {
		return err
	}
	for _, p := range places {
		if err := p.begin(); err != nil {
			return err
		}
	}
	idents := make([]datadirs.Identity, len(places))
	ensemble := zab.State{Zxid: c.Tree.LastZxid()}
	if z := ensemble.Zxid; z != 0 {
		ensemble.Epochs = []zab.EpochEnd{{Epoch: z.Epoch(), Last: z.Counter()}}
	}
	for i, p := range places {
		idents[i] = NewIdentity()
		idents[i].Server = p.Server
		if c.Secret != (secret.Key{}) {
			idents[i].Secret = c.Secret
		}
		if p.Server != 0 {
			ensemble.Init = zab.ClusterInit{Cluster: idents[0].Cluster, Secret: idents[0].Secret}
			ensemble.Admitted = append(ensemble.Admitted, zab.Admission{Server: p.Server, Incarnation: idents[i].Incarnation})
		}
	}
	slices.SortFunc(ensemble.Admitted, func(a, b zab.Admission) int { return cmp.Compare(a.Server, b.Server) })
	ref, err := places[0].writeTree(ctx, c.Tree, &ensemble, &idents[0])
	if err != nil {
		return err
	}
	for i, p := range places {
		if err := p.complete(c, &idents[i], ref, places[0]); err != nil {
			return err
		}
	}
	for i, p := range places { // not before all of them have their data
		if err := p.writeOwner(datadirs.Owner{Server: idents[i].Server, Incarnation: idents[i].Incarnation}); err != nil {
			return err
		}
	}
	return nil
}

// CheckEmpty returns an error if one of the places has data. It says so if Write has completed that one,
// and was interrupted before another one.
func CheckEmpty(places ...Place) error {
	for _, p := range places {
		err := p.CheckEmpty()
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

// CheckEmpty returns an error if the place has data, other than what an interrupted Write has left.
func (p Place) CheckEmpty() error {
	if info, err := p.fsys().Stat(p.mark()); err == nil {
		if info.Size() > 0 { // those of Write are empty
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
	if err := p.CheckEmpty(); err != nil {
		return err
	}
	f, err := p.fsys().Create(p.mark())
	if err == nil {
		err = errors.Join(f.Sync(), f.Close(), p.fsys().SyncDir(p.DataDir))
	}
	for _, dir := range []string{filepath.Join(p.DataDir, "snap"), LogDir(p.LogDir)} {
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
	return WriteSnapshot(ctx, store.Write, &state.State{Tree: tree}, view, ensemble.Append(nil), id)
}

// complete writes the rest of the data: the snapshot, if another place has it, and the log that
// refers to it.
func (p Place) complete(c *Contents, id *datadirs.Identity, ref wal.SnapRef, written Place) error {
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
	log, _, err := wal.Open(wal.Options{FS: p.fsys(), Dir: LogDir(p.LogDir), Ident: id.Encode()})
	if err != nil {
		return err
	}
	err = log.Append([]wal.Record{PromiseRecord(zab.Promise{Epoch: c.Epoch}), ref.Record()})
	if err == nil {
		_, err = log.Sync()
	}
	return errors.Join(err, log.Close())
}

// writeOwner writes the names of the owner, and ends the writing of data at p.
func (p Place) writeOwner(o datadirs.Owner) error {
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
