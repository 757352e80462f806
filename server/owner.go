package server

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/datadirs"
)

// readOwner reads the file. It returns nil if there is none. The error is a *fault.Error.
func readOwner(fsys vfs.FS, dataDir string) (*datadirs.Owner, error) {
	name := filepath.Join(dataDir, datadirs.OwnerFile)
	b, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fault.IO(name, err)
	}
	o, err := datadirs.DecodeOwner(b)
	if err != nil {
		return nil, fault.New(fault.Damaged, name, err)
	}
	return &o, nil
}

// writeOwner writes o to the file durably.
func writeOwner(fsys vfs.FS, dataDir string, o datadirs.Owner) error {
	name := filepath.Join(dataDir, datadirs.OwnerFile)
	tmp := name + ".tmp"
	f, err := fsys.Create(tmp)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.WriteAt(o.Encode(), 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err == nil {
		err = fsys.SyncDir(dataDir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
