package datadirs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/server/zab"
)

// InitializeFile is the file in dataDir by which an operator confirms that an empty
// directory is meant to be empty, as for Apache's server. A start that heeds it removes
// it.
const InitializeFile = "initialize"

// LockFile is the file in dataDir that a running server has locked.
const LockFile = "LOCK"

// UnfinishedFile is the file in dataDir that says that data is being written into the
// directory by a command such as zkd import. It is removed last.
const UnfinishedFile = "UNFINISHED"

// Found is the contents of dataDir and dataLogDir at a start, before anything there is
// changed. The two are often different disks, and each can be missing, empty, or another
// server's. An empty server would then be started by mistake, or files would be written
// that hide others.
type Found struct {
	DataDir, LogDir string  // the configured names
	Self            zab.SID // this server's id; 0 for a single server
	NoAutoCreate    bool    // db.autocreate=false: an empty tree needs Approved

	Exists       bool      // there is a log, or the mark of one that is being set aside
	Blank        bool      // no record was ever written to it
	Log          *Identity // nil if there is no log, or its headers are damaged
	Owner        *Owner    // of dataDir; nil if the file is missing or damaged
	OwnerError   error     // the file is damaged
	Snapshots    int
	Remains      bool     // there is no log, but files in its place
	ForeignFiles []string // files that are neither zkd's nor harmless
	Approved     bool     // there is an InitializeFile
	Unfinished   bool     // there is an UnfinishedFile

	// What belongs in the other one of two different directories: a log in DataDir, and
	// snapshots, an OwnerFile or an UnfinishedFile in LogDir.
	LogInDataDir, DataInLogDir bool
}

// Start is what a server starts as.
type Start struct {
	Aside bool // the operator has ordered the data to be set aside
	New   bool // the server begins without data
	// Unproven means that a server that begins without data may have had some: it does not
	// count before it has everything from a leader.
	Unproven bool
}

// Decide decides what a server starts as with these directories. order is the value of
// --set-data-aside. The error tells an operator why the server must not start.
func (f *Found) Decide(order string) (Start, error) {
	if err := f.MixedUp(); err != nil {
		return Start{}, err
	}
	if f.Unfinished {
		return Start{}, fmt.Errorf("the data in %s is not complete: the command that was writing it, such as zkd import, was interrupted; run it again (zkd export: into an empty directory)", f.DataDir)
	}
	if f.Owner != nil && f.Owner.Copy != 0 {
		return Start{}, f.Owner.Copy.refusal(f.DataDir)
	}
	if err := f.ownershipError(); err != nil {
		return Start{}, err
	}
	if aside, err := f.setAsideOrdered(order); aside || err != nil {
		unproven := aside
		unproven = unproven && !lossCounts.Planted()
		return Start{Aside: aside, New: aside, Unproven: unproven}, err
	}
	if err := f.incomplete(); err != nil {
		return Start{}, err
	}
	if f.Exists {
		return Start{}, nil
	}
	return f.checkEmptyStart()
}

// MixedUp returns an error if one of the directories has what belongs in the other: each
// of them may be the wrong one, or both. Apache's server refuses that, too.
func (f *Found) MixedUp() error {
	if rolesIgnored.Planted() {
		return nil
	}
	const journal, data = "a log in its directory journal", "a file " + OwnerFile + " or snapshots in its directory snap"
	switch {
	case f.LogInDataDir && f.DataInLogDir:
		return fmt.Errorf("dataDir (%s) has %s, and dataLogDir (%s) has %s: the two have been exchanged. Write dataDir=%s and dataLogDir=%s",
			f.DataDir, journal, f.LogDir, data, f.LogDir, f.DataDir)
	case f.LogInDataDir:
		return fmt.Errorf("dataDir (%s) has %s, and dataLogDir is %s: are both right? If that log is what a move of the log has left, move it away",
			f.DataDir, journal, f.LogDir)
	case f.DataInLogDir:
		return fmt.Errorf("dataLogDir (%s) has %s, and dataDir is %s: are both right? If that is what a move of the data has left, move it away",
			f.LogDir, data, f.DataDir)
	}
	return nil
}

// incomplete returns an error if one of the directories is missing, or another than the one
// with which the other has worked.
func (f *Found) incomplete() error {
	switch {
	case halfCounts.Planted():
		return nil
	case !f.Exists && (f.Owner != nil || f.OwnerError != nil || f.Snapshots > 0 || f.Remains):
		return fmt.Errorf("there is no log in %s, but there is %s: is dataLogDir right, and is its disk mounted? "+
			"If the log is lost, %s", f.LogDir, f.describeRemains(), f.recoveryAdvice())
	case !f.Exists && len(f.ForeignFiles) > 0 && !f.Approved:
		return f.foreignFilesError()
	case f.otherDataDir() && !f.Approved:
		return fmt.Errorf("the log in %s belongs with a data directory that is not %s, which has no file %s: "+
			"is dataDir right, and is its disk mounted? If that directory is lost and this one is to replace it, make the file %s, and what the log has is used; or %s",
			f.LogDir, f.DataDir, OwnerFile, f.initializeFile(), f.recoveryAdvice())
	}
	return nil
}

// Vacant returns an error if there is data, of zkd or not.
func (f *Found) Vacant() error {
	switch {
	case f.Exists || f.Owner != nil || f.OwnerError != nil || f.Snapshots > 0 || f.Remains || f.LogInDataDir || f.DataInLogDir:
		dirs := f.DataDir
		if f.LogDir != f.DataDir {
			dirs += " or " + f.LogDir
		}
		return fmt.Errorf("there is data of zkd in %s already: name a directory without data", dirs)
	case len(f.ForeignFiles) > 0:
		return fmt.Errorf("there are other files: %s: name a directory without data", f.listForeignFiles())
	}
	return nil
}

// checkEmptyStart decides whether a server without data may start with an empty tree. A member
// without the file that db.autocreate=false requires may also start, but as one that has
// lost its data, so that it waits for the data of the others.
func (f *Found) checkEmptyStart() (Start, error) {
	switch {
	case !f.NoAutoCreate || f.Approved:
		return Start{New: true}, nil
	case f.Self != 0:
		return Start{New: true, Unproven: true}, nil
	}
	return Start{}, fmt.Errorf("there is no data and db.autocreate is false: to begin with an empty tree, make the file %s", f.initializeFile())
}

// NewLog returns the identity of the log that a start without data makes, from one that was
// just drawn.
func (f *Found) NewLog(s Start, drawn Identity) Identity {
	if s.Aside {
		return f.Replacement(drawn)
	}
	drawn.Server, drawn.Unproven = f.Self, s.Unproven
	return drawn
}

// Replacement returns the identity of a log that takes the place of the one that is there,
// because that one is damaged or an operator has ordered it.
func (f *Found) Replacement(drawn Identity) Identity {
	drawn.Server, drawn.Unproven = f.Self, true
	drawn.Replaced, _ = f.Incarnation()
	if lossCounts.Planted() {
		drawn.Unproven, drawn.Incarnation = false, drawn.Replaced
	}
	return drawn
}

// MayReplace reports whether a log from which the state can't be built may be set aside
// without an order, because the snapshots that it refers to can't be used for these reasons.
// All of them must be proven to be damaged, and other servers must have the data: what is
// missing may come back.
func (f *Found) MayReplace(reasons []error) bool {
	notLost := func(err error) bool {
		other := fault.KindOf(err) != fault.Damaged
		return other && !missingIsLost.Planted()
	}
	return f.Self != 0 && !slices.ContainsFunc(reasons, notLost)
}

// Settle returns the identity of the log, and the owner of dataDir, that a start leaves. A log
// of an earlier format, and that of a server which becomes a member, get another identity with
// the same incarnation.
func (f *Found) Settle(log Identity) (Identity, Owner) {
	log.Format = uint8(format.Identity.Writes())
	if log.Server == 0 {
		log.Server = f.Self
	}
	if lossForgotten.Planted() && f.Exists {
		log.Unproven = false
	}
	return log, Owner{Server: log.Server, Incarnation: log.Incarnation}
}

// CatchUp brings Owner up to date with a log that took another incarnation while the server
// ran, and reports whether it changed. The start must write the file before it opens the log:
// a log that replaces this one names only this one's incarnation.
func (f *Found) CatchUp() bool {
	if f.Owner == nil || f.Log == nil || f.Owner.Incarnation == f.Log.Incarnation {
		return false
	}
	if ownerLate.Planted() {
		return false
	}
	f.Owner = &Owner{Server: f.Owner.Server, Incarnation: f.Log.Incarnation}
	return true
}

// Superseded reports whether a snapshot that the log does not refer to is of no use: this log
// took it, and has its history. Any other one may be the last copy of something.
func Superseded(log *Identity, incarnation []byte, covered bool) bool {
	useless := string(incarnation) == string(log.Incarnation[:]) && covered
	return useless || othersRemoved.Planted()
}

// Incarnation returns the incarnation of the data that is there, if it is known.
func (f *Found) Incarnation() (id zab.ID, known bool) {
	switch {
	case f.Log != nil:
		return f.Log.Incarnation, true
	case f.Owner != nil:
		return f.Owner.Incarnation, true
	}
	return id, false
}

// otherDataDir reports whether the log has worked with another dataDir than this one. A first
// start makes the log, and then the file that names its owner. The first format had no
// such file.
func (f *Found) otherDataDir() bool {
	fresh := f.Blank && f.Snapshots == 0
	return f.Log != nil && f.Log.Format > 1 && !fresh && f.Owner == nil && f.OwnerError == nil
}

// ownershipError returns an error if a directory belongs to another server, or if the two do not
// belong together.
func (f *Found) ownershipError() error {
	if err := f.OtherServer(f.Log); err != nil {
		return err
	}
	if o, self := f.Owner, f.Self; o != nil && self != 0 && o.Server != 0 && o.Server != self {
		return fmt.Errorf("the data in %s belongs to %s, and this is server %d: is dataDir right, and myid?",
			f.DataDir, BelongsTo(o.Server, o.Incarnation), self)
	}
	if o, id := f.Owner, f.Log; o != nil && id != nil && o.Incarnation != id.Incarnation && o.Incarnation != id.Replaced {
		return fmt.Errorf("the data in %s belongs to %s, and the log in %s to %s: they do not belong together; are dataDir and dataLogDir right?",
			f.DataDir, BelongsTo(o.Server, o.Incarnation), f.LogDir, BelongsTo(id.Server, id.Incarnation))
	}
	return nil
}

// OtherServer returns an error if a log with the identity id belongs to another server. A
// single server may become a member with any id.
func (f *Found) OtherServer(id *Identity) error {
	if self := f.Self; id != nil && self != 0 && id.Server != 0 && id.Server != self {
		return fmt.Errorf("the log in %s belongs to %s, and this is server %d: is dataLogDir right, and myid?",
			f.LogDir, BelongsTo(id.Server, id.Incarnation), self)
	}
	return nil
}

// setAsideOrdered reports whether the operator has ordered this data to be set aside.
func (f *Found) setAsideOrdered(order string) (bool, error) {
	if order == "" {
		return false, nil
	}
	if f.Self == 0 {
		return false, errors.New("--set-data-aside is for a member of an ensemble, which gets its data from the others; a single server has nothing else")
	}
	id, known := f.Incarnation()
	switch {
	case !known:
		return false, errors.New("--set-data-aside: there is no data here that has a name; move away what is there, and start with empty directories")
	case order == ShortID(id):
		return true, nil
	case f.Log != nil && order == ShortID(f.Log.Replaced):
		return false, nil // done at an earlier start
	}
	return false, fmt.Errorf("--set-data-aside=%s: the data here is %s; name that, if it is what you mean", order, ShortID(id))
}

// describeRemains describes the remains of a server whose log is missing.
func (f *Found) describeRemains() string {
	switch {
	case f.Owner != nil:
		return fmt.Sprintf("the data of %s in %s", BelongsTo(f.Owner.Server, f.Owner.Incarnation), f.DataDir)
	case f.Snapshots > 0:
		return fmt.Sprintf("a snapshot in %s", f.DataDir)
	case f.OwnerError != nil:
		return fmt.Sprintf("a file %s in %s", OwnerFile, f.DataDir)
	}
	return "what is left of one"
}

// recoveryAdvice returns the operator's options when a part of the data is lost.
func (f *Found) recoveryAdvice() string {
	const empty = "to begin without data, move the contents of both directories away (but for myid)"
	if f.Self == 0 {
		return "restore both directories from a backup; " + empty
	}
	if id, known := f.Incarnation(); known {
		return fmt.Sprintf("start once with --set-data-aside=%s: this server then gets everything from the leader, and has no vote before that", ShortID(id))
	}
	return empty + ": a member gets everything from the leader"
}

// foreignFilesError returns the error that refuses an empty tree beside foreign files.
func (f *Found) foreignFilesError() error {
	advice := "is the directory right, and is its disk mounted?"
	if slices.ContainsFunc(f.ForeignFiles, isApacheData) {
		advice = "version-2 is the data of Apache ZooKeeper. To move it to zkd, " + f.importAdvice() + ", and give zkd that directory."
	}
	return fmt.Errorf("there is no data of zkd, but there are other files: %s: %s To begin with an empty tree beside them, make the file %s",
		f.listForeignFiles(), advice, f.initializeFile())
}

func (f *Found) listForeignFiles() string {
	list := strings.Join(f.ForeignFiles[:min(len(f.ForeignFiles), 3)], ", ")
	if len(f.ForeignFiles) > 3 {
		list += fmt.Sprintf(" and %d more", len(f.ForeignFiles)-3)
	}
	return list
}

// importAdvice returns the command that imports the data of Apache's server.
func (f *Found) importAdvice() string {
	command := "zkd import --from " + f.DataDir
	if f.LogDir != f.DataDir {
		command += " --log-dir " + f.LogDir
	}
	if f.Self != 0 {
		return "stop its servers, and run " + command + " --from DATADIR... --members ID,ID,... --to DIR with the directories of all of them (docs/moving.md)"
	}
	return "stop its server, and run " + command + " --to DIR (docs/moving.md)"
}

func isApacheData(path string) bool {
	return path == "version-2" || strings.HasSuffix(path, "/version-2")
}

// AddAdvice adds the operator's options to an error of opening the data.
func (f *Found) AddAdvice(err error) error {
	switch fault.KindOf(err) {
	case fault.Newer:
		return fmt.Errorf("%w. Start the version of zkd that wrote it, or a later one", err)
	case fault.Missing, fault.Unreadable, fault.Foreign, fault.Inconsistent:
		return fmt.Errorf("%w. Nothing was set aside: put back what is missing. If it is lost, %s", err, f.recoveryAdvice())
	}
	return err
}

func (f *Found) initializeFile() string { return f.DataDir + "/" + InitializeFile }
