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

// A mirror's data has the form of a member's, and its file IDENTITY says that it is a mirror's. So no
// server starts with it.

// CreateMirror makes the data of a mirror without any transaction at a place that has no data.
func CreateMirror(p Place) error {
	if err := p.begin(); err != nil {
		return err
	}
	id := NewIdentity()
	id.Server = p.Server
	log, _, err := wal.Open(wal.Options{Dir: LogDir(p.LogDir), Ident: id.Encode()})
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
	return p.writeOwner(datadirs.Owner{Server: id.Server, Incarnation: id.Incarnation, Mirror: true})
}

// IsMirror reports whether the data at a place is that of a mirror.
func IsMirror(p Place) (bool, error) {
	o, err := readOwner(vfs.OS{}, p.DataDir)
	if _, unfinished := os.Stat(p.mark()); unfinished == nil {
		return false, nil
	}
	return o != nil && o.Mirror, err
}

// OpenMirror opens the data of a mirror, or of the member that a mirror has become. mirror says which.
// The directories must be closed.
func OpenMirror(ctx context.Context, p Place, logger *zap.Logger) (d *Dirs, r *Recovered, mirror bool, err error) {
	if d, err = p.offline(logger); err != nil {
		return nil, nil, false, err
	}
	found, err := d.lockAndExamine(ctx)
	if err == nil {
		if mirror = found.Owner != nil && found.Owner.Mirror; mirror {
			owner := *found.Owner
			owner.Mirror = false
			found.Owner = &owner
		}
		r, err = d.recoverOffline(ctx, found, history.Moment{})
	}
	if err != nil {
		return nil, nil, false, errors.Join(err, d.Close())
	}
	return d, r, mirror, nil
}

// EndMirror takes away what keeps servers from starting with a mirror's data.
func EndMirror(p Place, id *datadirs.Identity) error {
	return writeOwner(vfs.OS{}, p.DataDir, datadirs.Owner{Server: id.Server, Incarnation: id.Incarnation})
}
