package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// TestForeignFilesStopTheStart checks that a server without data does not start with an
// empty tree beside foreign files, unless the operator allows it.
func TestForeignFilesStopTheStart(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files []string // a name that ends in / is a directory
		want  string   // part of the refusal; empty if there is none
	}{
		{"nothing", nil, ""},
		{"what belongs there", []string{"data/myid", "data/lost+found/", "data/.hidden", "data/zookeeper_server.pid", "data/zoo.cfg.dynamic.100000000",
			"data/zkd.log", "data/zoo.cfg", "data/LOCK", "log/journal.LOCK", "data/snap/", "data/tmp/", "log/journal/"}, ""},
		{"Apache's data", []string{"data/version-2/"}, "version-2 is the data of Apache ZooKeeper, which zkd can't read yet; docs/operations.md says"},
		{"Apache's log", []string{"log/version-2/"}, "log/version-2: version-2 is the data of Apache ZooKeeper"},
		{"another program's files", []string{"data/PG_VERSION", "data/base/", "data/global/", "data/pg_wal/"}, "data/global and 1 more: is the directory right"},
		{"what is left of a log", []string{"log/journal/00000000000000000001.wal.damaged"}, "there is no log in"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range tt.files {
				path := filepath.Join(dir, name)
				check(t, os.MkdirAll(filepath.Dir(path), 0o700))
				if strings.HasSuffix(name, "/") {
					check(t, os.MkdirAll(path, 0o700))
				} else {
					check(t, os.WriteFile(path, []byte("1"), 0o600))
				}
			}
			cfg := parseConfig(t, filepath.Join(dir, "data"), "dataLogDir="+filepath.Join(dir, "log"))
			start := func() error {
				s := newTestServer(t, Options{FS: fastFS{}, Config: cfg})
				if err := s.Start(t.Context()); err != nil {
					return err
				}
				return s.Close()
			}
			for what, err := range map[string]error{"CheckData": CheckData(cfg), "Start": start()} {
				if (err != nil) != (tt.want != "") || !strings.Contains(fmt.Sprint(err), tt.want) {
					t.Errorf("%s: %v, want %q", what, err, tt.want)
				}
			}
			if tt.want == "" || strings.Contains(tt.want, "no log") {
				return
			}
			mark := filepath.Join(dir, "data", initializeFile)
			check(t, os.MkdirAll(filepath.Dir(mark), 0o700))
			check(t, os.WriteFile(mark, nil, 0o600))
			for range 2 { // the second time there is data of zkd too
				if err := start(); err != nil {
					t.Errorf("with the file %s: %v", initializeFile, err)
				}
				if _, err := os.Stat(mark); err == nil {
					t.Errorf("the file %s is still there", initializeFile)
				}
			}
		})
	}
}

// TestDataDirsCheck tests the decision about the directories, without any files.
func TestDataDirsCheck(t *testing.T) {
	id := func(server, incarnation, replaced byte) *ident {
		return &ident{format: 2, server: sid(server), incarnation: [16]byte{incarnation}, replaced: [16]byte{replaced}}
	}
	own := func(server, incarnation byte) *owner {
		return &owner{server: sid(server), incarnation: [16]byte{incarnation}}
	}
	old := id(0, 5, 0)
	old.format = 1
	log := wal.Identity{Exists: true}
	for _, tt := range []struct {
		name  string
		dirs  dataDirs
		myid  int64 // 0 for a single server
		order string
		aside bool
		want  string // part of the refusal
	}{
		{name: "nothing"},
		{name: "its data", dirs: dataDirs{log: log, ident: id(2, 5, 0), owner: own(2, 5)}, myid: 2},
		{name: "another member's", dirs: dataDirs{log: log, ident: id(2, 5, 0), owner: own(2, 5)}, myid: 1,
			want: "belongs to server 2 (05000000), and this is server 1"},
		{name: "another member's dataDir", dirs: dataDirs{owner: own(3, 5)}, myid: 1, want: "belongs to server 3 (05000000), and this is server 1"},
		{name: "a member's, by a single server", dirs: dataDirs{log: log, ident: id(2, 5, 0), owner: own(2, 5)}},
		{name: "a single server's, by a member", dirs: dataDirs{log: log, ident: id(0, 5, 0), owner: own(0, 5)}, myid: 3},
		{name: "that do not belong together", dirs: dataDirs{log: log, ident: id(0, 5, 0), owner: own(0, 6)}, want: "do not belong together"},
		{name: "set aside, and interrupted", dirs: dataDirs{log: log, ident: id(1, 6, 5), owner: own(1, 5)}, myid: 1},
		{name: "a log alone", dirs: dataDirs{log: log, ident: id(1, 5, 0)}, myid: 1, want: "has no file IDENTITY"},
		{name: "a log alone, approved", dirs: dataDirs{log: log, ident: id(1, 5, 0), approved: true}, myid: 1},
		{name: "a log alone, without a record", dirs: dataDirs{log: wal.Identity{Exists: true, Blank: true}, ident: id(1, 5, 0)}, myid: 1},
		{name: "a log of format 1", dirs: dataDirs{log: log, ident: old}, myid: 1},
		{name: "a log whose headers are damaged", dirs: dataDirs{log: log, owner: own(1, 5)}, myid: 1},
		{name: "a damaged IDENTITY", dirs: dataDirs{log: log, ident: id(1, 5, 0), ownerErr: os.ErrInvalid}, myid: 1},
		{name: "no log", dirs: dataDirs{owner: own(1, 5)}, myid: 1, want: "start once with --set-data-aside=05000000"},
		{name: "no log, approved", dirs: dataDirs{owner: own(1, 5), approved: true}, myid: 1, want: "there is no log"},
		{name: "no log, single", dirs: dataDirs{owner: own(0, 5)}, want: "restore both directories from a backup"},
		{name: "snapshots alone", dirs: dataDirs{snapshots: 1}, want: "there is no log"},
		{name: "an order", dirs: dataDirs{owner: own(1, 5)}, myid: 1, order: "05000000", aside: true},
		{name: "an order for a sound log", dirs: dataDirs{log: log, ident: id(1, 5, 0), owner: own(1, 5)}, myid: 1, order: "05000000", aside: true},
		{name: "an order that was carried out", dirs: dataDirs{log: log, ident: id(1, 6, 5), owner: own(1, 6)}, myid: 1, order: "05000000"},
		{name: "an order for other data", dirs: dataDirs{log: log, ident: id(1, 6, 0), owner: own(1, 6)}, myid: 1, order: "05000000",
			want: "the data here is 06000000"},
		{name: "an order for another member's data", dirs: dataDirs{log: log, ident: id(2, 5, 0)}, myid: 1, order: "05000000", want: "belongs to server 2"},
		{name: "an order for nothing", myid: 1, order: "05000000", want: "no data here that has a name"},
		{name: "an order to a single server", dirs: dataDirs{owner: own(0, 5)}, order: "05000000", want: "a single server has nothing else"},
	} {
		tt.dirs.cfg = &config.Config{MyID: -1}
		if tt.myid > 0 {
			tt.dirs.cfg = parseConfig(t, t.TempDir(), "initLimit=5", "syncLimit=2", fmt.Sprint("zkd.myid=", tt.myid),
				"server.1=a:1:2", "server.2=b:1:2", "server.3=c:1:2")
		}
		aside, err := tt.dirs.check(tt.order)
		if aside != tt.aside || (err != nil) != (tt.want != "") || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: set aside: %t, %v; want %t, %q", tt.name, aside, err, tt.aside, tt.want)
		}
	}
}

// TestCrashAtTheFirstStart cuts the power before each operation of a first start. The
// next start always works.
func TestCrashAtTheFirstStart(t *testing.T) {
	fs := crashfs.New(1)
	var images []*crashfs.FS
	fs.SetHook(func(op crashfs.Op) error {
		if op.Kind.Mutates() {
			images = append(images, fs.Crash(nil), fs.Kill())
		}
		return nil
	})
	s := startOn(t, fs, "/data")
	fs.SetHook(nil)
	check(t, s.Close())
	for i, image := range images {
		again := newTestServer(t, Options{FS: image, Config: parseConfig(t, "/data")})
		if err := again.Start(t.Context()); err != nil {
			t.Fatalf("image %d of %d: %v", i, len(images), err)
		}
		check(t, again.Close())
	}
}

func sid(n byte) zab.SID { return zab.SID(n) }
