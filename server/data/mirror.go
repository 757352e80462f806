package data

import (
	"context"
	"errors"
	"os"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// A mirror's data has the form of a member's, and its file IDENTITY says of whose ensemble it is a copy.
// So no server starts with it.

// CreateMirror makes the data of a mirror without any transaction at a place that has no data.
func CreateMirror(p Place, of datadirs.Copy) error {
	if err := p.begin(); err != nil {
		return err
	}
	id := NewIdentity()
	id.Server = p.Server
	log, _, err := wal.Open(wal.Options{Dir: LogDir(p.LogDir), SegmentSize: p.SegmentSize, Ident: id.Encode()})
	if err != nil {
		return err
	}
	// An empty log could be mistaken for one that may be replaced.
	err = log.Append([]wal.Record{PromiseRecord(zab.Promise{})})
	if err == nil {
		_, err = log.Sync()
	}
	if err := errors.Join(err, log.Close()); err != nil {
		return err
	}
	return p.writeOwner(datadirs.Owner{Server: id.Server, Incarnation: id.Incarnation, Copy: of})
}

// MirrorOf returns of whose ensemble the data at a place is a copy, 0 if it is no mirror's.
func MirrorOf(p Place) (datadirs.Copy, error) {
	o, err := readOwner(vfs.OS{}, p.DataDir)
	if _, unfinished := os.Stat(p.mark()); unfinished == nil {
		return 0, nil
	}
	if o == nil {
		return 0, err
	}
	return o.Copy, err
}

// OpenMirror opens the data of a mirror, or of the member that a mirror has become: then of is 0. The
// directories must be closed.
func OpenMirror(ctx context.Context, p Place, logger *zap.Logger) (d *Dirs, r *Recovered, of datadirs.Copy, err error) {
	if d, err = p.offline(logger); err != nil {
		return nil, nil, 0, err
	}
	found, err := d.lockAndExamine(ctx)
	if err == nil {
		if found.Owner != nil {
			owner := *found.Owner
			of, owner.Copy = owner.Copy, 0
			found.Owner = &owner
		}
		r, err = d.recoverOffline(ctx, found, history.Moment{})
	}
	if err != nil {
		return nil, nil, 0, errors.Join(err, d.Close())
	}
	return d, r, of, nil
}

// EndMirror takes away what keeps servers from starting with a mirror's data.
func EndMirror(p Place, id *datadirs.Identity) error {
	return writeOwner(vfs.OS{}, p.DataDir, datadirs.Owner{Server: id.Server, Incarnation: id.Incarnation})
}
