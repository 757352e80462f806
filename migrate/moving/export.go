package moving

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/migrate/apachefiles"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// Export says what to export, and where to.
type Export struct {
	// From are the data directories of zkd's servers, and LogDirs their dataLogDirs, in the same
	// order; none if they are the same.
	From, LogDirs []string
	// Single accepts the data of one member of an ensemble.
	Single bool
	// DropSessions closes the sessions that Apache's server does not accept: those that zkd has
	// opened.
	DropSessions bool
	// TTLEnabled says that Apache's servers have extendedTypesEnabled. Without it they delete
	// nodes with a time to live.
	TTLEnabled bool

	// To is the dataDir to be written. With Members it has a directory for each, named by its id.
	To      string
	Members []zab.SID
}

// Run exports.
func (e *Export) Run(ctx context.Context) (*Report, error) {
	dirs, err := e.targets()
	if err != nil {
		return nil, err
	}
	state, r, err := e.read(ctx)
	if err != nil {
		return nil, err
	}
	r.describe(state)
	if r.TTLs > 0 && !e.TTLEnabled {
		return r, fmt.Errorf("there are %d znodes with a time to live: an Apache server without extendedTypesEnabled=true deletes them at its start; "+
			"set it on all servers, and say so with --ttl-enabled", r.TTLs)
	}
	out := e.convert(state.Tree, r)
	for id, dir := range dirs {
		if err := write(dir, id, out, state.Epoch); err != nil {
			return r, err
		}
		r.Written = append(r.Written, dir)
	}
	slices.Sort(r.Written)
	return r, nil
}

// targets returns the directories to write, by the id of the server; 0 for one without an
// ensemble. They have no data.
func (e *Export) targets() (map[zab.SID]string, error) {
	dirs := map[zab.SID]string{0: e.To}
	if len(e.Members) > 0 {
		clear(dirs)
	}
	for _, id := range e.Members {
		dirs[id] = filepath.Join(e.To, strconv.Itoa(int(id)))
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, datadirs.UnfinishedFile)); err == nil {
			return nil, fmt.Errorf("an export or an import into %s was interrupted: remove what it has left, or name an empty directory", dir)
		}
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, entry := range entries {
			if name := entry.Name(); name != "myid" && name != "lost+found" {
				return nil, fmt.Errorf("there is %s in %s: name an empty directory", name, dir)
			}
		}
	}
	return dirs, nil
}

// read reads the data of all servers, and returns that of the most advanced one.
func (e *Export) read(ctx context.Context) (best *data.Contents, r *Report, err error) {
	if len(e.LogDirs) > 0 && len(e.LogDirs) != len(e.From) {
		return nil, nil, fmt.Errorf("%d directories of data and %d of logs", len(e.From), len(e.LogDirs))
	}
	r = &Report{}
	epoch := uint32(0)
	for i, dir := range e.From {
		place := data.Place{DataDir: dir, LogDir: dir}
		if len(e.LogDirs) > 0 {
			place.LogDir = e.LogDirs[i]
		}
		s, err := data.Read(ctx, place)
		if err != nil {
			return nil, nil, err
		}
		epoch = max(epoch, s.Epoch)
		if best == nil || s.Tree.LastZxid() > best.Tree.LastZxid() {
			best, r.DataDir, r.LogDir = s, place.DataDir, place.LogDir
		}
	}
	best.Epoch = epoch
	if len(e.From) > 1 {
		r.Chosen = fmt.Sprintf("it has zxid %v, and no other has more", best.Tree.LastZxid())
	}
	return best, r, CheckMajority(len(e.From), best.Voters, best.Voters > 1, e.Single, r.DataDir)
}

// CheckMajority returns an error if the data of so few members of an ensemble is given that the
// others can have confirmed what these do not have.
func CheckMajority(given, voters int, member, single bool, dir string) error {
	if !member || single || given >= max(voters/2+1, 2) {
		return nil
	}
	of := ""
	if voters > 0 {
		of = fmt.Sprintf(" of %d voters", voters)
	}
	return fmt.Errorf("%s is of a member of an ensemble%s, and may lack writes that the others have confirmed: "+
		"name the directories of a majority (--from, once for each), or accept that with --single", dir, of)
}

// jutePatience is the length of a value that Apache's server reads by default, in bytes.
const jutePatience = 2*0xfffff - 1024

// convert returns the state as Apache's server has it.
func (e *Export) convert(t *datatree.Tree, r *Report) *apachefiles.State {
	s := &apachefiles.State{Zxid: t.LastZxid(), Sessions: maps.Collect(t.Sessions())}
	foreign := 0
	for id := range t.Sessions() {
		if t.FromApache(id) {
			continue
		}
		foreign++
		if e.DropSessions {
			delete(s.Sessions, id)
		}
	}
	switch {
	case foreign > 0 && e.DropSessions:
		r.Dropped = append(r.Dropped, fmt.Sprintf("%d sessions that zkd has opened, with their ephemerals", foreign))
	case foreign > 0:
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d sessions are zkd's: Apache's server tells their clients that they have expired, and deletes their ephemerals after their timeouts", foreign))
	}
	r.Sessions = len(s.Sessions)
	s.Nodes = func(yield func(string, *apachefiles.Node) bool) { walk(t, "", s, yield) }
	for path, n := range s.Nodes {
		if len(n.Data) > jutePatience {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s has %d bytes: Apache's server needs -Djute.maxbuffer=%d to read it", path, len(n.Data), len(n.Data)))
		}
	}
	return s
}

// walk yields the znodes at path and below it, but for the ephemerals of sessions that s does
// not have.
func walk(t *datatree.Tree, path string, s *apachefiles.State, yield func(string, *apachefiles.Node) bool) bool {
	data, n, _ := t.GetData(path)
	dropped := func(n datatree.Node) bool {
		_, ok := s.Sessions[n.Owner.Session()]
		return n.Owner.Ephemeral() && !ok
	}
	if dropped(n) {
		return true
	}
	out := &apachefiles.Node{Data: data, ACL: n.ACL, Stat: apachefiles.Stat{
		Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid, Ctime: n.Ctime, Mtime: n.Mtime,
		Version: n.Version, Cversion: n.Cversion, Aversion: n.Aversion, Owner: n.Owner,
	}}
	names := slices.Sorted(t.Children(path))
	for _, name := range names {
		if child, _ := t.Get(path + "/" + name); dropped(child) {
			out.Pzxid = s.Zxid
			break
		}
	}
	if !yield(path, out) {
		return false
	}
	for _, name := range names {
		if !walk(t, path+"/"+name, s, yield) {
			return false
		}
	}
	return true
}

// exporting is the content of datadirs.UnfinishedFile while an export is being written.
const exporting = "zkd export"

// write writes the data directory of a server: a snapshot, and the epochs of a member. Until all of it is
// durable, no server starts with it: zkd's because of a mark, and Apache's because of a log without a
// snapshot, which it takes for a snapshot that was lost. In a directory without any of its files it
// would begin with an empty tree.
func write(dir string, id zab.SID, s *apachefiles.State, epoch uint32) error {
	version2 := filepath.Join(dir, "version-2")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	mark, stop := filepath.Join(dir, datadirs.UnfinishedFile), fmt.Sprintf("log.%x", uint64(s.Zxid)+1)
	if err := errors.Join(writeFile(mark, []byte(exporting)), vfs.OS{}.SyncDir(dir)); err != nil {
		return err
	}
	begun := version2 + ".tmp" // version-2 never exists without the log
	if err := os.Mkdir(begun, 0o700); err != nil {
		return err
	}
	if err := errors.Join(writeFile(filepath.Join(begun, stop), []byte("not a log: "+exporting+" was interrupted\n")), vfs.OS{}.SyncDir(begun)); err != nil {
		return err
	}
	if err := errors.Join(os.Rename(begun, version2), vfs.OS{}.SyncDir(dir)); err != nil {
		return err
	}
	if id != 0 {
		number := func(name, text string) error { return writeFile(filepath.Join(dir, name), []byte(text)) }
		e := strconv.FormatUint(uint64(epoch), 10)
		if err := errors.Join(number("myid", strconv.Itoa(int(id))+"\n"), number("version-2/acceptedEpoch", e), number("version-2/currentEpoch", e)); err != nil {
			return err
		}
	}
	tmp := filepath.Join(version2, "unfinished.tmp")
	f, err := os.Create(tmp)
	if err != nil {
		return err
	}
	err = apachefiles.WriteSnapshot(f, s)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error {
			return os.Rename(tmp, filepath.Join(version2, fmt.Sprintf("snapshot.%x", uint64(s.Zxid))))
		},
		func() error { return vfs.OS{}.SyncDir(version2) },
		func() error { return os.Remove(filepath.Join(version2, stop)) },
		func() error { return vfs.OS{}.SyncDir(version2) },
		func() error { return os.Remove(mark) },
		func() error { return vfs.OS{}.SyncDir(dir) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a small file durably.
func writeFile(path string, b []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}
