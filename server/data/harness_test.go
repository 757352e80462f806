package data

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/testing/fastfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/datatree/treetest"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// fastFS waits for no disk: these tests make no power cuts.
type fastFS = fastfs.FS

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func parseConfig(t testing.TB, dir string, lines ...string) *config.Config {
	t.Helper()
	cfg, _, err := config.Parse(strings.NewReader("dataDir="+dir+"\nclientPort=2181\n"+strings.Join(lines, "\n")), "zoo.cfg")
	check(t, err)
	cfg.WALSegmentSize = 128 << 10 // less than a file may ask for: so that starts are quick
	return cfg
}

func newDirs(cfg *config.Config) *Dirs {
	return New(Options{Config: cfg, FS: fastFS{}, Logger: zap.NewNop(), Boot: 1})
}

// recoverOnce recovers the state as a start does.
func recoverOnce(t testing.TB, cfg *config.Config) error {
	d := newDirs(cfg)
	_, err := d.Recover(t.Context(), nil)
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// logged is the data of a server that has no ensemble and serves no clients: its entries are the test's.
type logged struct {
	t     testing.TB
	dir   string
	first jute.Zxid // of the state with which it began
	dirs  *Dirs
	store *Recovered
	state history.State
	log   *wal.Log
}

// loggedSession has made the entries.
const loggedSession = 0x77

func newLogged(t testing.TB) *logged {
	t.Helper()
	dir := t.TempDir()
	check(t, Write(t.Context(), &Contents{Tree: treetest.Imported(t)}, Place{DataDir: dir, LogDir: dir, fs: fastFS{}}))
	d := newDirs(parseConfig(t, dir))
	r, err := d.Recover(t.Context(), nil)
	check(t, err)
	w := &logged{t: t, dir: dir, first: r.Tree.LastZxid(), dirs: d, store: r, state: history.State{Tree: r.Tree, Ensemble: r.Ensemble}, log: d.TakeLog()}
	t.Cleanup(w.close)
	return w
}

// add appends the transaction of an operation, and applies it.
func (w *logged) add(op datatree.Op) jute.Zxid {
	w.t.Helper()
	last := w.state.Tree.LastZxid()
	txn := datatree.Txn{Zxid: last + 1, Session: loggedSession, Time: 1000 * int64(last.Counter()), Ops: []datatree.Op{op}}
	e := zab.Entry{Zxid: txn.Zxid, Prev: last, Type: zab.EntryTxn, Data: txn.Append(nil)}
	check(w.t, w.state.Apply(&e))
	check(w.t, w.log.Append([]wal.Record{EntryRecord(&e)}))
	return txn.Zxid
}

func (w *logged) sync() {
	w.t.Helper()
	_, err := w.log.Sync()
	check(w.t, err)
}

// snapshot writes a snapshot, to which the log refers.
func (w *logged) snapshot() {
	w.t.Helper()
	view := w.state.Tree.Freeze()
	defer view.Close()
	ref, err := WriteSnapshot(w.t.Context(), w.store.Store.Write, &state.State{Tree: w.state.Tree}, view, w.state.Ensemble.Append(nil), &w.store.Identity)
	check(w.t, err)
	check(w.t, w.log.Append([]wal.Record{ref.Record()}))
	w.sync()
}

func (w *logged) close() {
	if w.log == nil {
		return
	}
	w.sync()
	check(w.t, w.log.Close())
	check(w.t, w.dirs.Close())
	w.log = nil
}

// dataWithSnapshots makes the data of a server that has stopped: a log and three snapshots.
func dataWithSnapshots(t *testing.T) (dir string) {
	t.Helper()
	w := newLogged(t)
	for range 2 {
		for i := range 200 {
			w.add(datatree.Op{Kind: datatree.OpCreate, Path: fmt.Sprintf("/a/%d-%d", w.state.Tree.LastZxid(), i), Data: make([]byte, 100), ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}})
		}
		w.snapshot()
	}
	w.add(datatree.Op{Kind: datatree.OpDelete, Path: "/a-b"})
	w.close()
	return w.dir
}

// damage changes a bit in the middle of a file.
func damage(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	check(t, err)
	b[len(b)/2] ^= 0x40
	check(t, os.WriteFile(file, b, 0o600))
}
