package server

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// dataDirs is the contents of dataDir and dataLogDir at a start, before anything there is
// changed. The two are often different disks, and each can be missing, empty, or another
// server's. An empty server would then be started by mistake, or files would be written
// that hide others. check decides.
type dataDirs struct {
	cfg          *config.Config
	log          wal.Identity
	ident        *ident // the log's; nil if there is no log, or its headers are damaged
	owner        *owner // of dataDir; nil if the file is missing or damaged
	ownerErr     error  // the file is damaged
	snapshots    int
	remains      bool     // there is no log, but files in its place
	foreignFiles []string // files that are neither zkd's nor harmless
	approved     bool     // the operator made the file initialize
}

// initializeFile is the file in dataDir by which an operator confirms that an empty
// directory is meant to be empty, as for Apache's server. A start that heeds it removes
// it.
const initializeFile = "initialize"

// CheckData returns the reason why a server would not start with the configured
// directories, or nil, as far as an inspection shows it. It changes nothing, and may be
// called while a server runs.
func CheckData(cfg *config.Config) error {
	d, err := examine(vfs.OS{}, cfg)
	if err == nil {
		_, err = d.check("")
	}
	return err
}

// examine inspects the directories. Its error is about a file that can't be read, or that
// a later version wrote.
func examine(fsys vfs.FS, cfg *config.Config) (*dataDirs, error) {
	d := &dataDirs{cfg: cfg}
	for _, look := range []func(vfs.FS) error{d.lookAtLog, d.lookAtOwner, d.lookAtSnapshots, d.lookForForeignFiles} {
		if err := look(fsys); err != nil {
			return nil, fmt.Errorf("data directory %s, log in %s: %w", cfg.DataDir, cfg.DataLogDir, err)
		}
	}
	_, err := fsys.Stat(filepath.Join(cfg.DataDir, initializeFile))
	d.approved = err == nil
	return d, nil
}

func (d *dataDirs) lookAtLog(fsys vfs.FS) (err error) {
	dir := logDir(d.cfg.DataLogDir)
	if d.log, err = wal.Identify(fsys, dir); err != nil {
		return err
	}
	if d.log.Ident != nil {
		id, err := decodeIdent(d.log.Ident)
		if err != nil {
			return fault.New(fault.Inconsistent, dir, err)
		}
		d.ident = &id
	}
	if d.log.Exists {
		return nil
	}
	entries, err := readDir(fsys, dir)
	d.remains = slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".tmp") })
	return err
}

func (d *dataDirs) lookAtOwner(fsys vfs.FS) (err error) {
	d.owner, err = readOwner(fsys, d.cfg.DataDir)
	if fault.KindOf(err) == fault.Damaged {
		d.ownerErr, err = err, nil
	}
	return err
}

func (d *dataDirs) lookAtSnapshots(fsys vfs.FS) error {
	files, err := snapshot.List(fsys, d.cfg.DataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	d.snapshots = len(files)
	return err
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

func (d *dataDirs) lookForForeignFiles(fsys vfs.FS) error {
	for _, dir := range []string{d.cfg.DataDir, d.cfg.DataLogDir} {
		entries, err := readDir(fsys, dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); !d.harmless(path, e) && !slices.Contains(d.foreignFiles, path) {
				d.foreignFiles = append(d.foreignFiles, path)
			}
		}
	}
	return nil
}

// Names that an empty data directory may contain: zkd's own, and those of the service,
// the configuration and the file system.
var (
	harmlessNames = []string{"myid", initializeFile, ownerFile, ownerFile + ".tmp", "LOCK", "journal.LOCK", "journal", "snap", "tmp", "unreferenced", "lost+found"}
	harmlessEnds  = []string{".pid", ".log", ".out", ".cfg", ".conf", ".properties", ".pem"}
)

// harmless reports whether a file in a data directory gives no hint of the directory's
// owner.
func (d *dataDirs) harmless(path string, e fs.DirEntry) bool {
	name := e.Name()
	if strings.HasPrefix(name, ".") || slices.Contains(harmlessNames, name) || strings.Contains(name, ".dynamic") {
		return true
	}
	if !e.IsDir() {
		return !e.Type().IsRegular() || slices.ContainsFunc(harmlessEnds, func(end string) bool { return strings.HasSuffix(name, end) }) ||
			slices.Contains([]string{d.cfg.QuorumSecretFile, d.cfg.QuorumTLS.KeyStore, d.cfg.QuorumTLS.TrustStore}, path)
	}
	// One of the two directories may lie within the other.
	within := func(dir string) bool { return strings.HasPrefix(filepath.Clean(dir)+"/", path+"/") }
	return within(d.cfg.DataDir) || within(d.cfg.DataLogDir)
}

// self is the server id that this server's data carries: 0 for a single server.
func (d *dataDirs) self() zab.SID {
	if d.cfg.Replicated() {
		return zab.SID(d.cfg.MyID)
	}
	return 0
}

// incarnation returns the incarnation of the data that is there, if it is known.
func (d *dataDirs) incarnation() (id zab.ID, known bool) {
	switch {
	case d.ident != nil:
		return d.ident.incarnation, true
	case d.owner != nil:
		return d.owner.incarnation, true
	}
	return id, false
}

// check decides whether a server may start with these directories. order is the value of
// --set-data-aside; aside reports whether the data is to be set aside.
func (d *dataDirs) check(order string) (aside bool, err error) {
	if err := d.ownershipError(); err != nil {
		return false, err
	}
	if aside, err = d.setAsideOrdered(order); aside || err != nil {
		return aside, err
	}
	switch {
	case !d.log.Exists && (d.owner != nil || d.ownerErr != nil || d.snapshots > 0 || d.remains):
		return false, fmt.Errorf("there is no log in %s, but there is %s: is dataLogDir right, and is its disk mounted? "+
			"If the log is lost, %s", d.cfg.DataLogDir, d.describeRemains(), d.recoveryAdvice())
	case !d.log.Exists && len(d.foreignFiles) > 0 && !d.approved:
		return false, d.foreignFilesError()
	case d.otherDataDir() && !d.approved:
		return false, fmt.Errorf("the log in %s belongs with a data directory that is not %s, which has no file %s: "+
			"is dataDir right, and is its disk mounted? If that directory is lost and this one is to replace it, make the file %s, and what the log has is used; or %s",
			d.cfg.DataLogDir, d.cfg.DataDir, ownerFile, filepath.Join(d.cfg.DataDir, initializeFile), d.recoveryAdvice())
	}
	return false, nil
}

// otherDataDir reports whether the log has worked with another dataDir than this one. A first
// start makes the log, and then the file that names its owner. The first format had no
// such file.
func (d *dataDirs) otherDataDir() bool {
	fresh := d.log.Blank && d.snapshots == 0
	return d.ident != nil && d.ident.format > 1 && !fresh && d.owner == nil && d.ownerErr == nil
}

// ownershipError returns an error if a directory belongs to another server, or if the two do not
// belong together.
func (d *dataDirs) ownershipError() error {
	if err := d.otherServer(d.ident); err != nil {
		return err
	}
	if o, self := d.owner, d.self(); o != nil && self != 0 && o.server != 0 && o.server != self {
		return fmt.Errorf("the data in %s belongs to %s, and this is server %d: is dataDir right, and myid?",
			d.cfg.DataDir, belongsTo(o.server, o.incarnation), self)
	}
	if o, id := d.owner, d.ident; o != nil && id != nil && o.incarnation != id.incarnation && o.incarnation != id.replaced {
		return fmt.Errorf("the data in %s belongs to %s, and the log in %s to %s: they do not belong together; are dataDir and dataLogDir right?",
			d.cfg.DataDir, belongsTo(o.server, o.incarnation), d.cfg.DataLogDir, belongsTo(id.server, id.incarnation))
	}
	return nil
}

// otherServer returns an error if a log with the identity id belongs to another server. A
// single server may become a member with any id.
func (d *dataDirs) otherServer(id *ident) error {
	if self := d.self(); id != nil && self != 0 && id.server != 0 && id.server != self {
		return fmt.Errorf("the log in %s belongs to %s, and this is server %d: is dataLogDir right, and myid?",
			d.cfg.DataLogDir, belongsTo(id.server, id.incarnation), self)
	}
	return nil
}

// setAsideOrdered reports whether the operator has ordered this data to be set aside.
func (d *dataDirs) setAsideOrdered(order string) (bool, error) {
	if order == "" {
		return false, nil
	}
	if !d.cfg.Replicated() {
		return false, errors.New("--set-data-aside is for a member of an ensemble, which gets its data from the others; a single server has nothing else")
	}
	id, known := d.incarnation()
	switch {
	case !known:
		return false, errors.New("--set-data-aside: there is no data here that has a name; move away what is there, and start with empty directories")
	case order == shortID(id):
		return true, nil
	case d.ident != nil && order == shortID(d.ident.replaced):
		return false, nil // done at an earlier start
	}
	return false, fmt.Errorf("--set-data-aside=%s: the data here is %s; name that, if it is what you mean", order, shortID(id))
}

// describeRemains describes the remains of a server whose log is missing.
func (d *dataDirs) describeRemains() string {
	switch {
	case d.owner != nil:
		return fmt.Sprintf("the data of %s in %s", belongsTo(d.owner.server, d.owner.incarnation), d.cfg.DataDir)
	case d.snapshots > 0:
		return fmt.Sprintf("a snapshot in %s", d.cfg.DataDir)
	case d.ownerErr != nil:
		return fmt.Sprintf("a file %s in %s", ownerFile, d.cfg.DataDir)
	}
	return "what is left of one"
}

// recoveryAdvice returns the operator's options when a part of the data is lost.
func (d *dataDirs) recoveryAdvice() string {
	const empty = "to begin without data, move the contents of both directories away (but for myid)"
	if !d.cfg.Replicated() {
		return "restore both directories from a backup; " + empty
	}
	if id, known := d.incarnation(); known {
		return fmt.Sprintf("start once with --set-data-aside=%s: this server then gets everything from the leader, and has no vote before that", shortID(id))
	}
	return empty + ": a member gets everything from the leader"
}

// foreignFilesError returns the error that refuses an empty tree beside foreign files.
func (d *dataDirs) foreignFilesError() error {
	list := strings.Join(d.foreignFiles[:min(len(d.foreignFiles), 3)], ", ")
	if len(d.foreignFiles) > 3 {
		list += fmt.Sprintf(" and %d more", len(d.foreignFiles)-3)
	}
	advice := "is the directory right, and is its disk mounted?"
	if slices.ContainsFunc(d.foreignFiles, func(path string) bool { return filepath.Base(path) == "version-2" }) {
		advice = "version-2 is the data of Apache ZooKeeper, which zkd can't read yet; docs/operations.md says how data moves today. Give zkd another directory"
	}
	return fmt.Errorf("there is no data of zkd, but there are other files: %s: %s. To begin with an empty tree beside them, make the file %s",
		list, advice, filepath.Join(d.cfg.DataDir, initializeFile))
}
