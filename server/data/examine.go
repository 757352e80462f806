package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// explorer fills a datadirs.Found.
type explorer struct {
	cfg *config.Config
	datadirs.Found
}

// Check returns the reason why a server would not start with the configured
// directories, or nil, as far as an inspection shows it. It changes nothing, and may be
// called while a server runs.
func Check(cfg *config.Config) error {
	d, err := examine(vfs.OS{}, cfg)
	if err == nil {
		_, err = d.Decide("")
	}
	return err
}

// examine inspects the directories. Its error is about a file that can't be read, or that
// a later version wrote.
func examine(fsys vfs.FS, cfg *config.Config) (*datadirs.Found, error) {
	d := &explorer{cfg: cfg, Found: datadirs.Found{DataDir: cfg.DataDir, LogDir: cfg.DataLogDir, NoAutoCreate: !cfg.DBAutoCreate}}
	if cfg.Replicated() {
		d.Self = zab.SIDOf(uint8(cfg.MyID))
	}
	for _, look := range []func(vfs.FS) error{d.lookAtLog, d.lookAtOwner, d.lookAtSnapshots, d.lookForMixUp, d.lookForForeignFiles} {
		if err := look(fsys); err != nil {
			return nil, fmt.Errorf("data directory %s, log in %s: %w", cfg.DataDir, cfg.DataLogDir, err)
		}
	}
	_, err := fsys.Stat(filepath.Join(cfg.DataDir, datadirs.InitializeFile))
	d.Approved = err == nil
	_, err = fsys.Stat(filepath.Join(cfg.DataDir, datadirs.UnfinishedFile))
	d.Unfinished = err == nil
	return &d.Found, nil
}

func (d *explorer) lookAtLog(fsys vfs.FS) (err error) {
	dir := LogDir(d.cfg.DataLogDir)
	log, err := wal.Identify(fsys, dir)
	if err != nil {
		return err
	}
	d.Exists, d.Blank = log.Exists, log.Blank
	if log.Ident != nil {
		id, err := datadirs.DecodeIdentity(log.Ident)
		if err != nil {
			return fault.New(fault.Inconsistent, dir, err)
		}
		d.Log = &id
	}
	if log.Exists {
		return nil
	}
	entries, err := readDir(fsys, dir)
	d.Remains = slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".tmp") })
	return err
}

func (d *explorer) lookAtOwner(fsys vfs.FS) (err error) {
	d.Owner, err = readOwner(fsys, d.cfg.DataDir)
	if fault.KindOf(err) == fault.Damaged {
		d.OwnerError, err = err, nil
	}
	return err
}

func (d *explorer) lookAtSnapshots(fsys vfs.FS) error {
	files, err := snapshot.Reading(fsys, d.cfg.DataDir).List()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	d.Snapshots = len(files)
	return err
}

// lookForMixUp looks for what belongs in the other directory, if they are two.
func (d *explorer) lookForMixUp(fsys vfs.FS) error {
	data, log := d.cfg.DataDir, d.cfg.DataLogDir
	if same(fsys, data, log) {
		return nil
	}
	if !same(fsys, LogDir(data), LogDir(log)) {
		entries, err := readDir(fsys, LogDir(data))
		if err != nil {
			return err
		}
		d.LogInDataDir = slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.Contains(e.Name(), ".wal") })
	}
	files, err := snapshot.Reading(fsys, log).List()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d.DataInLogDir = len(files) > 0
	for _, name := range []string{datadirs.OwnerFile, datadirs.UnfinishedFile} {
		if _, err := fsys.Stat(filepath.Join(log, name)); err == nil {
			d.DataInLogDir = true
		}
	}
	return nil
}

// same reports whether two names are those of one directory.
func same(fsys vfs.FS, a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	x, err := fsys.Stat(a)
	if err != nil {
		return false
	}
	y, err := fsys.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// readDir lists a directory. A directory that does not exist is empty.
func readDir(fsys vfs.FS, dir string) ([]fs.DirEntry, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fault.IO(dir, err)
	}
	return entries, nil
}

func (d *explorer) lookForForeignFiles(fsys vfs.FS) error {
	for _, dir := range []string{d.cfg.DataDir, d.cfg.DataLogDir} {
		entries, err := readDir(fsys, dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); !d.harmless(path, e) && !slices.Contains(d.ForeignFiles, path) {
				d.ForeignFiles = append(d.ForeignFiles, path)
			}
		}
	}
	return nil
}

// Names that an empty data directory may contain: zkd's own, and those of the service,
// the configuration and the file system.
var (
	harmlessNames = []string{"myid", datadirs.InitializeFile, datadirs.UnfinishedFile, datadirs.OwnerFile, datadirs.OwnerFile + ".tmp", datadirs.LockFile, "journal.LOCK", "journal", "snap", "tmp", "unreferenced", "lost+found"}
	harmlessEnds  = []string{".pid", ".log", ".out", ".cfg", ".conf", ".properties", ".pem", ".jks", ".p12"}
)

// harmless reports whether a file in a data directory gives no hint of the directory's
// owner.
func (d *explorer) harmless(path string, e fs.DirEntry) bool {
	name := e.Name()
	if strings.HasPrefix(name, ".") || slices.Contains(harmlessNames, name) || strings.Contains(name, ".dynamic") {
		return true
	}
	if !e.IsDir() {
		return !e.Type().IsRegular() || slices.ContainsFunc(harmlessEnds, func(end string) bool { return strings.HasSuffix(name, end) }) ||
			slices.Contains([]string{d.cfg.QuorumSecretFile, d.cfg.QuorumTLS.Key.File, d.cfg.QuorumTLS.Trust.File, d.cfg.ClientTLS.Key.File, d.cfg.ClientTLS.Trust.File}, path)
	}
	// One of the two directories may lie within the other.
	within := func(dir string) bool { return strings.HasPrefix(filepath.Clean(dir)+"/", path+"/") }
	return within(d.cfg.DataDir) || within(d.cfg.DataLogDir)
}
