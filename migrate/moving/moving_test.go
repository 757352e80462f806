package moving

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/apachefiles"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// apacheDir makes the data directory of an Apache server: of a member, if it has an epoch.
func apacheDir(t *testing.T, zxid jute.Zxid, epoch int, config string) string {
	t.Helper()
	dir := t.TempDir()
	node := func(data string) *apachefiles.Node {
		return &apachefiles.Node{Data: []byte(data), ACL: []jute.ACL{{Perms: 31, ID: jute.WorldAnyone}}, Stat: apachefiles.Stat{Mzxid: zxid, Pzxid: zxid}}
	}
	mine := node("mine")
	mine.Owner = 0x100002d57e4000d
	ttl := node("short")
	ttl.Owner = jute.OwnerTTL(5000)
	var b bytes.Buffer
	check(t, apachefiles.WriteSnapshot(&b, &apachefiles.State{
		Zxid: zxid, Sessions: map[jute.SessionID]int32{0x100002d57e4000d: 30000},
		Nodes: func(yield func(string, *apachefiles.Node) bool) {
			_ = yield("", node("")) && yield("/a", node("a")) && yield("/a/b", mine) && yield("/a-b", ttl) &&
				yield("/zookeeper", node("")) && yield("/zookeeper/config", node(config)) && yield("/zookeeper/quota", node(""))
		},
	}))
	check(t, os.Mkdir(filepath.Join(dir, "version-2"), 0o700))
	check(t, os.WriteFile(filepath.Join(dir, "version-2", fmt.Sprintf("snapshot.%x", int64(zxid))), b.Bytes(), 0o600))
	if epoch > 0 {
		for _, name := range []string{"currentEpoch", "acceptedEpoch"} {
			check(t, os.WriteFile(filepath.Join(dir, "version-2", name), fmt.Append(nil, epoch), 0o600))
		}
	}
	return dir
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLongListsAreRemarked checks that an import names the znode whose list Java's clients do not
// accept by default.
func TestLongListsAreRemarked(t *testing.T) {
	for name, many := range map[string]bool{"few": false, "many": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			node := &apachefiles.Node{ACL: []jute.ACL{{Perms: 31, ID: jute.WorldAnyone}}}
			var b bytes.Buffer
			check(t, apachefiles.WriteSnapshot(&b, &apachefiles.State{Zxid: 5, Nodes: func(yield func(string, *apachefiles.Node) bool) {
				_ = yield("", node) && yield("/topics", node)
				for i := range 10 {
					if many || i < 9 {
						yield(fmt.Sprintf("/topics/%s%d", strings.Repeat("t", 110_000), i), node)
					}
				}
				_ = yield("/zookeeper", node) && yield("/zookeeper/config", node) && yield("/zookeeper/quota", node)
			}}))
			check(t, os.Mkdir(filepath.Join(dir, "version-2"), 0o700))
			check(t, os.WriteFile(filepath.Join(dir, "version-2", "snapshot.5"), b.Bytes(), 0o600))
			r, err := (&Import{From: []string{dir}}).Run(t.Context())
			check(t, err)
			remarked := strings.Contains(r.Text(), `1 znodes have so many children that a list of them is longer than jute.maxbuffer of Java's clients`) &&
				strings.Contains(r.Text(), `of "/topics"`)
			if remarked != many {
				t.Errorf("remarked %v: %s", remarked, r.Text())
			}
		})
	}
}

// TestImportInEpoch imports the data of a member whose files of epochs are wrong, in an epoch that is given.
func TestImportInEpoch(t *testing.T) {
	const zxid = 0x300000005
	dir, other := apacheDir(t, zxid, 3, ""), apacheDir(t, zxid, 3, "")
	run := func(m Import) (*Report, error) {
		m.Single = true
		return m.Run(t.Context())
	}
	for _, text := range []string{"?", "2"} {
		check(t, os.WriteFile(filepath.Join(dir, "version-2", "currentEpoch"), []byte(text), 0o600))
		if _, err := run(Import{From: []string{dir}}); err == nil || !strings.Contains(err.Error(), "currentEpoch") {
			t.Errorf("epoch %s: %v", text, err)
		}
		if r, err := run(Import{From: []string{dir}, Epoch: 9}); err != nil || r.Epoch != 9 || r.Zxid != zxid {
			t.Errorf("epoch %s: %+v, %v", text, r, err)
		}
	}
	to := filepath.Join(t.TempDir(), "new")
	_, err := run(Import{From: []string{dir}, Epoch: 9, To: to, Members: []zab.SID{1, 2, 3}})
	check(t, err)
	s, err := data.Read(t.Context(), data.Place{DataDir: filepath.Join(to, "2"), LogDir: filepath.Join(to, "2")})
	check(t, err)
	if s.Epoch != 9 {
		t.Errorf("the members have promised epoch %d", s.Epoch)
	}
	for _, m := range []Import{{From: []string{dir}, Epoch: 2}, {From: []string{dir}, Epoch: 1<<31 - 1}, {From: []string{dir, other}, Epoch: 9}} {
		if _, err := run(m); err == nil || !strings.Contains(err.Error(), "epoch") {
			t.Errorf("epoch %d of %d servers: %v", m.Epoch, len(m.From), err)
		}
	}
}

// TestThereAndBack imports, exports and imports again: each time it is the same tree, with the
// same sessions.
func TestThereAndBack(t *testing.T) {
	from := apacheDir(t, 0x500000007, 0, "")
	there := &Import{From: []string{from}, To: filepath.Join(t.TempDir(), "there")}
	r, err := there.Run(t.Context())
	check(t, err)
	if r.Nodes != 7 || r.Sessions != 1 || r.Ephemerals != 1 || r.TTLs != 1 || r.Digests != 1 || r.Zxid != 0x500000007 {
		t.Errorf("report %+v", r)
	}
	back := &Export{From: []string{there.To}, To: filepath.Join(t.TempDir(), "back")}
	if _, err := back.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "--ttl-enabled") {
		t.Errorf("with a TTL: %v", err)
	}
	back.TTLEnabled = true
	exported, err := back.Run(t.Context())
	check(t, err)
	again := &Import{From: []string{back.To}}
	checked, err := again.Run(t.Context())
	check(t, err)
	if exported.Digest != r.Digest || checked.Digest != r.Digest || len(checked.Written) > 0 || exported.Sessions != 1 {
		t.Errorf("digests %s, %s, %s", r.Digest, exported.Digest, checked.Digest)
	}
	if _, err := back.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "name an empty directory") {
		t.Errorf("a second time: %v", err)
	}
	if text := r.Text(); !strings.Contains(text, "znodes     7: 1 ephemerals") || !strings.Contains(text, "written    "+there.To) {
		t.Errorf("the report is\n%s", text)
	}
}

// TestDroppedSessions exports without the sessions that zkd has opened.
func TestDroppedSessions(t *testing.T) {
	to := filepath.Join(t.TempDir(), "data")
	_, err := (&Import{From: []string{apacheDir(t, 7, 0, "")}, To: to}).Run(t.Context())
	check(t, err)
	state, err := data.Read(t.Context(), data.Place{DataDir: to, LogDir: to})
	check(t, err)
	e := &Export{DropSessions: true}
	var r Report
	if s := e.convert(state.Tree, &r); len(s.Sessions) != 1 || len(r.Dropped) != 0 {
		t.Errorf("a session of Apache's was dropped: %v", r.Dropped)
	}
	state.Tree = ownSessions(t, state.Tree.LastZxid())
	for _, drop := range []bool{false, true} {
		e.DropSessions, r = drop, Report{}
		paths := map[string]jute.Zxid{}
		for path, n := range e.convert(state.Tree, &r).Nodes {
			paths[path] = n.Pzxid
		}
		if _, there := paths["/a/b"]; there == drop || (paths["/a"] == 7) != drop || len(r.Dropped)+len(r.Warnings) != 1 {
			t.Errorf("drop %t: %v, %q, %q", drop, paths, r.Dropped, r.Warnings)
		}
	}
}

// TestSeveralServers imports from the most advanced of several servers, into an ensemble.
func TestSeveralServers(t *testing.T) {
	const config = "server.1=a:1:2:participant\nserver.2=b:1:2:participant\nserver.3=c:1:2:participant\nserver.4=d:1:2:observer\nversion=100000000"
	one, two, three := apacheDir(t, 0x500000007, 5, config), apacheDir(t, 0x500000009, 6, config), apacheDir(t, 0x50000000a, 5, config)
	to := filepath.Join(t.TempDir(), "new")
	for _, tt := range []struct {
		m    Import
		want string
	}{
		{Import{From: []string{one}, To: to}, "of a member of an ensemble of 3 voters"},
		{Import{From: []string{one}, Single: true}, ""},
		{Import{From: []string{one, three}}, ""},
		{Import{From: []string{one, one}}, "comes before"},
		{Import{From: []string{one}, LogDirs: []string{one, two}}, "1 directories of data and 2 of logs"},
		{Import{From: []string{one, two}, To: filepath.Join(one, "new")}, "which is only read"},
		{Import{From: []string{one, two}, To: to, Members: []zab.SID{1, 2, 1}}, "twice"},
		{Import{From: []string{one, t.TempDir()}}, "neither snapshots nor logs"},
		{Import{From: []string{apacheDir(t, 0x5fffffffe, 0, "")}, To: to}, "--members"},
	} {
		if _, err := tt.m.Run(t.Context()); (err == nil) != (tt.want == "") || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.m, err, tt.want)
		}
	}
	m := Import{From: []string{one}}
	r, err := m.Run(t.Context())
	check(t, err)
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "of a member of an ensemble of 3 voters") {
		t.Errorf("a look at one member: %q", r.Warnings)
	}
	m = Import{From: []string{one, two, three}, To: to, Members: []zab.SID{3, 1, 2}}
	r, err = m.Run(t.Context())
	check(t, err)
	if r.DataDir != two || r.Zxid != 0x500000009 || !strings.Contains(r.Chosen, "it has epoch 6") || len(r.Written) != 3 {
		t.Errorf("report %+v", r)
	}
	check(t, os.WriteFile(filepath.Join(three, "myid"), []byte("4\n"), 0o600))
	if _, err := (&Import{From: []string{one, three}, To: filepath.Join(t.TempDir(), "of-an-observer")}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "of 3 voters") {
		t.Errorf("one member and an observer: %v", err)
	}
	back := &Export{From: []string{filepath.Join(to, "1")}, To: filepath.Join(t.TempDir(), "back"), Members: []zab.SID{1, 2, 3}, TTLEnabled: true}
	if _, err := back.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "of 3 voters") {
		t.Errorf("one member alone: %v", err)
	}
	back.From = append(back.From, filepath.Join(to, "2"))
	_, err = back.Run(t.Context())
	check(t, err)
	for name, want := range map[string]string{"2/myid": "2\n", "2/version-2/currentEpoch": "6", "3/version-2/acceptedEpoch": "6"} {
		if b, err := os.ReadFile(filepath.Join(back.To, name)); string(b) != want {
			t.Errorf("%s is %q, %v; want %q", name, b, err, want)
		}
	}
}

// ownSessions returns a tree with an ephemeral of a session that zkd has opened.
func ownSessions(t *testing.T, zxid jute.Zxid) *datatree.Tree {
	t.Helper()
	l := datatree.NewLoader()
	check(t, l.AddSession(5, 4000, false))
	for _, path := range []string{"", "/a", "/a/b"} {
		row := datatree.NodeRow{}
		if path == "/a/b" {
			row.Owner = 5
		}
		check(t, l.AddZnode(path, &row, []jute.ACL{{Perms: 31, ID: jute.WorldAnyone}}))
	}
	tree, err := l.FinishAt(zxid)
	check(t, err)
	return tree
}

// TestExportIsInterrupted looks at what an export has written at a moment in the middle: the mark, by which
// zkd refuses it, and a log without a snapshot, by which Apache's server does.
func TestExportIsInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "to")
	node := &apachefiles.Node{ACL: []jute.ACL{{Perms: 31, ID: jute.WorldAnyone}}}
	looks := 0
	state := &apachefiles.State{Zxid: 0x100000007, Nodes: func(yield func(string, *apachefiles.Node) bool) {
		looks++
		mark, err := os.ReadFile(filepath.Join(dir, "UNFINISHED"))
		if err != nil || string(mark) != exporting {
			t.Errorf("the mark is %q, %v", mark, err)
		}
		logs, _ := filepath.Glob(filepath.Join(dir, "version-2", "log.100000008"))
		snapshots, _ := filepath.Glob(filepath.Join(dir, "version-2", "snapshot.*"))
		if len(logs) != 1 || len(snapshots) != 0 {
			t.Errorf("logs %v, snapshots %v", logs, snapshots)
		}
		for _, err := range []error{
			func() error { _, err := (&Export{To: dir}).targets(); return err }(),
			data.Place{DataDir: dir, LogDir: dir}.CheckEmpty(),
			func() error {
				_, err := data.Read(t.Context(), data.Place{DataDir: dir, LogDir: dir})
				return err
			}(),
		} {
			if err == nil || !strings.Contains(err.Error(), "was interrupted") {
				t.Errorf("error %v", err)
			}
		}
		_ = yield("", node)
	}}
	check(t, write(dir, 3, state, 1))
	if looks == 0 {
		t.Error("nothing was written")
	}
	var names []string
	check(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, rel)
		}
		return err
	}))
	if got := strings.Join(names, " "); got != "LOCK journal.LOCK myid version-2/acceptedEpoch version-2/currentEpoch version-2/snapshot.100000007" {
		t.Errorf("files %s", got)
	}
}
