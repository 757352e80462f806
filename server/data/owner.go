package data

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
	if err := vfs.Replace(fsys, name, o.Encode(), ""); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
