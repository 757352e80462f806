package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/server/datadirs"
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
