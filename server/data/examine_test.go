package data

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
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
		{"Apache's data", []string{"data/version-2/"}, "version-2 is the data of Apache ZooKeeper. To move it to zkd, stop its server, and run zkd import --from "},
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
			start := func() error { return recoverOnce(t, cfg) }
			for what, err := range map[string]error{"Check": Check(cfg), "Recover": start()} {
				if (err != nil) != (tt.want != "") || !strings.Contains(fmt.Sprint(err), tt.want) {
					t.Errorf("%s: %v, want %q", what, err, tt.want)
				}
			}
			if tt.want == "" || strings.Contains(tt.want, "no log") {
				return
			}
			mark := filepath.Join(dir, "data", datadirs.InitializeFile)
			check(t, os.MkdirAll(filepath.Dir(mark), 0o700))
			check(t, os.WriteFile(mark, nil, 0o600))
			for range 2 { // the second time there is data of zkd too
				if err := start(); err != nil {
					t.Errorf("with the file %s: %v", datadirs.InitializeFile, err)
				}
				if _, err := os.Stat(mark); err == nil {
					t.Errorf("the file %s is still there", datadirs.InitializeFile)
				}
			}
		})
	}
}

// TestMixedUpDirectories gives a server each pair of directories that it, another server, or one
// with a single directory has used, as its dataDir and dataLogDir. It starts with those that belong
// together, by any name, and with what is empty. Otherwise it refuses and changes nothing.
func TestMixedUpDirectories(t *testing.T) {
	const a, b = "a/data a/log", "b/data b/log"
	for _, tt := range []struct {
		name    string
		members bool
		starts  []string // pairs that belong together
	}{
		{"single servers", false, []string{a, b, "one one", "one link", "link one", "link link", "empty empty", "empty none", "none empty"}},
		{"a member", true, []string{a, "empty empty", "empty none", "none empty"}},
	} {
		dir := t.TempDir()
		lines := func(id int) []string {
			if !tt.members {
				return nil
			}
			return []string{"initLimit=10", "syncLimit=5", fmt.Sprintf("zkd.myid=%d", id), "server.1=127.0.0.1:1:2", "server.2=127.0.0.1:3:4", "server.3=127.0.0.1:5:6"}
		}
		config := func(id int, data, log string) *config.Config {
			return parseConfig(t, filepath.Join(dir, data), append(lines(id), "dataLogDir="+filepath.Join(dir, log))...)
		}
		for id, pair := range []string{"", a, b, "one one"} {
			if id > 0 {
				data, log, _ := strings.Cut(pair, " ")
				use(t, config(id, data, log))
			}
		}
		check(t, os.Symlink("one", filepath.Join(dir, "link")))
		check(t, os.Mkdir(filepath.Join(dir, "empty"), 0o700))
		for _, data := range []string{"a/data", "a/log", "b/data", "b/log", "one", "link", "empty", "none"} {
			for _, log := range []string{"a/data", "a/log", "b/data", "b/log", "one", "link", "empty", "none"} {
				pair := data + " " + log
				if pair == "none none" {
					continue
				}
				err := Check(config(1, data, log))
				if starts := slices.Contains(tt.starts, pair); starts != (err == nil) {
					t.Errorf("%s: dataDir=%s dataLogDir=%s: %v; want a start: %t", tt.name, data, log, err, starts)
				}
			}
		}
	}
}

// use makes data in the directories of a configuration: with a log, a snapshot, and the file
// IDENTITY.
func use(t *testing.T, cfg *config.Config) {
	t.Helper()
	place := Place{DataDir: cfg.DataDir, LogDir: cfg.DataLogDir}
	if cfg.Replicated() {
		place.Server = zab.SID(cfg.MyID)
	}
	tree := datatree.New()
	check(t, Write(t.Context(), &Contents{Tree: tree}, place))
	os.Remove(filepath.Join(cfg.DataDir, "myid")) // which would tell, too
}
