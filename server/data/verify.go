package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/wal"
)

// ErrUnsound means that a verification has found something wrong, and has written what it is.
var ErrUnsound = errors.New("not sound")

// Verify reads all data of a server, and writes a line for the log and for each snapshot. It
// makes the checks of a start and loads every snapshot: checksums, counts and digests must be
// right, and bbolt must be able to read the files. It changes nothing.
func Verify(ctx context.Context, w io.Writer, dataDir, dataLogDir string) error {
	v := verifier{ctx: ctx, w: w, fsys: vfs.OS{}}
	if _, err := v.fsys.Stat(filepath.Join(dataDir, datadirs.UnfinishedFile)); err == nil {
		v.bad("%s: the command that was writing it, such as zkd restore, was interrupted", dataDir)
	}
	v.owner(dataDir)
	v.directories(dataDir, dataLogDir)
	return v.verdict()
}

// VerifyConfigured is like Verify for the directories of a configuration. It also checks that
// they are those of the server that the configuration describes.
func VerifyConfigured(ctx context.Context, w io.Writer, cfg *config.Config) error {
	v := verifier{ctx: ctx, w: w, fsys: vfs.OS{}}
	if err := Check(cfg); err != nil {
		v.bad("a server would not start: %v", err)
	}
	v.directories(cfg.DataDir, cfg.DataLogDir)
	return v.verdict()
}

// VerifySnapshot is like Verify for one snapshot, in a file of any name.
func VerifySnapshot(ctx context.Context, w io.Writer, path string) error {
	v := verifier{ctx: ctx, w: w, fsys: vfs.OS{}}
	v.snapshot(snapshot.ReadingFrom(v.fsys, filepath.Dir(path)), filepath.Base(path), nil)
	return v.verdict()
}

// VerifyArchive is like Verify for a directory of backups and segments. It applies the entries to
// each backup, too.
func VerifyArchive(ctx context.Context, w io.Writer, a *archive.Archive) error {
	sound, err := a.Verify(ctx, w)
	if err == nil && !sound {
		err = ErrUnsound
	}
	return err
}

// verifier writes what it finds.
type verifier struct {
	ctx     context.Context
	w       io.Writer
	fsys    vfs.FS
	unsound bool
	written error // of w
}

func (v *verifier) line(format string, args ...any) {
	if _, err := fmt.Fprintf(v.w, format+"\n", args...); err != nil && v.written == nil {
		v.written = err
	}
}

func (v *verifier) bad(format string, args ...any) {
	v.unsound = true
	v.line("NOT SOUND: "+format, args...)
}

func (v *verifier) verdict() error {
	switch err := context.Cause(v.ctx); {
	case err != nil:
		return err
	case v.written != nil:
		return v.written
	case v.unsound:
		return ErrUnsound
	}
	return nil
}

// log verifies the log, and returns its references to snapshots.
func (v *verifier) log(dir string) []wal.SnapRef {
	rec, err := wal.Verify(wal.Options{FS: v.fsys, Dir: dir, CheckEntry: checkEntry})
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && rec.New:
		v.bad("%s: there is no log", dir)
		return nil
	case err != nil:
		v.bad("%v", err)
		return nil
	}
	v.line("%s: sound, entries after %v up to %v, %d snapshots", dir, rec.FirstZxid, rec.LastZxid, len(rec.Snaps))
	if t := rec.Torn; t != nil {
		v.line("%s: after %v, at offset %d, there is an incomplete write: never acknowledged, or by a server that runs", t.Segment, t.After, t.Offset)
	}
	return rec.Snaps
}

// owner verifies the file without which no server starts.
func (v *verifier) owner(dataDir string) {
	switch owner, err := readOwner(v.fsys, dataDir); {
	case err != nil:
		v.bad("%v", err)
	case owner == nil:
		v.bad("%s: there is no %s, which names the log that belongs to it: no server starts with it", dataDir, datadirs.OwnerFile)
	}
}

func (v *verifier) directories(dataDir, dataLogDir string) {
	refs := v.log(LogDir(dataLogDir))
	v.snapshots(snapshot.Reading(v.fsys, dataDir), refs)
}

// snapshots verifies the snapshots of a directory and those that the log refers to.
func (v *verifier) snapshots(store *snapshot.Store, refs []wal.SnapRef) {
	for i := range refs {
		v.snapshot(store, refs[i].Name, &refs[i])
	}
	files, err := store.List()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.bad("%v", err)
	}
	for _, f := range files {
		if !slices.ContainsFunc(refs, func(r wal.SnapRef) bool { return r.Name == f.Name }) {
			v.line("%s: the log does not refer to it", store.Path(f.Name))
			v.snapshot(store, f.Name, nil)
		}
	}
}

// snapshot verifies a snapshot: that it is the one of a reference, if there is one.
func (v *verifier) snapshot(store *snapshot.Store, name string, ref *wal.SnapRef) {
	path := store.Path(name)
	if ref == nil {
		own, err := refOf(v.ctx, store, name)
		if err != nil {
			v.bad("%v", err)
			return
		}
		ref = &own
	}
	tree, _, err := history.Load(v.ctx, store, StoreRef(*ref))
	if err == nil {
		err = store.Check(name)
	}
	if err != nil {
		v.bad("%v", err)
		return
	}
	v.line("%s: sound, zxid %v, %d znodes, %d sessions", path, tree.LastZxid(), tree.Stats().Nodes, tree.NumSessions())
}
