package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
)

const (
	staticFile = `# The ensemble of the shop.
tickTime=2000
dataDir=/data
initLimit=10
syncLimit=5

# The members.
server.1=a:2888:3888;2181
server.2=b:2888:3888;2181
# one more
server.3=c:2888:3888;2181

# Clients.
clientPort=2181
maxClientCnxns=0
`
	dynamicFile = `# The ensemble of the shop.
tickTime=2000
dataDir=/data
initLimit=10
syncLimit=5

# The members.
dynamicConfigFile=/conf/zoo.cfg.dynamic.1b
# one more

# Clients.
maxClientCnxns=0
`
)

// pointer is the line that the tests of pointTo expect.
const pointer = "dynamicConfigFile=/new.5"

func TestPointTo(t *testing.T) {
	both := Server{Client: Endpoint{"a", 2181}, SecureClient: Endpoint{"a", 2281}}
	for _, test := range []struct {
		name, before string
		own          Server
		want         string
	}{
		{"empty", "", both, pointer + "\n"},
		{"no members", "a=1\n", both, "a=1\n" + pointer + "\n"},
		{"no newline at the end", "a=1", both, "a=1\n" + pointer + "\n"},
		{"no newline after the last member", "a=1\nserver.1=x", both, "a=1\n" + pointer},
		{"CR LF", "a=1\r\nserver.1=x\r\n\r\nserver.2=x\r\n# b\r\n", both, "a=1\r\n" + pointer + "\r\n\r\n# b\r\n"},
		{"CR LF, added", "a=1\r\n# b", both, "a=1\r\n# b\r\n" + pointer + "\r\n"},
		{"CR", "a=1\rserver.1=x\rb=2\r", both, "a=1\r" + pointer + "\rb=2\r"},
		{"in place", "dynamicConfigFile=/old.4\na=1\n", both, pointer + "\na=1\n"},
		{"given twice", "dynamicConfigFile=/old.3\n# the last one counts\ndynamicConfigFile=/old.4\na=1\n", both,
			"# the last one counts\n" + pointer + "\na=1\n"},
		{"Java's separators", "a 1\n  server.1 : x\n\tserver.2\tx\ngroup.1:1\nweight.1 1\npeerType observer\ndynamicConfigFile : /old.4\n", both,
			"a 1\n" + pointer + "\n"},
		{"prefix", "zookeeper.server.1=x\nzookeeper.peerType=observer\nzookeeper.clientPort=1\nzookeeper.a=1\n", both, pointer + "\nzookeeper.a=1\n"},
		{"prefix of the pointer", "zookeeper.dynamicConfigFile=/old.4\n", both, pointer + "\n"},
		{"escapes", "serv\\u0065r.1=x\nb=\\u00zz\nserver.2=\\\n  x\na=1\n", both, pointer + "\nb=\\u00zz\na=1\n"},
		{"comments with keys", "#server.1=x\n! clientPort=1\n", both, "#server.1=x\n! clientPort=1\n" + pointer + "\n"},
		{"a continued line at the end", "a=1\\", both, "a=1\\\n\n" + pointer + "\n"},
		{"a continued line before the end", "a=1\\\n", both, "a=1\\\n\n" + pointer + "\n"},
		{"ports in the line", "clientPort=1\nclientPortAddress=a\nsecureClientPort=2\nsecureClientPortAddress=a\n", both, pointer + "\n"},
		{"a secure port only", "clientPort=1\nclientPortAddress=a\nsecureClientPort=2\n", Server{SecureClient: Endpoint{"a", 2}},
			"clientPort=1\nclientPortAddress=a\n" + pointer + "\n"},
		{"no port in the line", "clientPort=1\nsecureClientPort=2\npeerType=observer\n", Server{}, "clientPort=1\nsecureClientPort=2\n" + pointer + "\n"},
		{"similar keys", "servers=1\nclientPortListenBacklog=7\nmetricsProvider.httpPort=1\n", both,
			"servers=1\nclientPortListenBacklog=7\nmetricsProvider.httpPort=1\n" + pointer + "\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, static := pointTo([]byte(test.before), "/new.5", test.own)
			if string(got) != test.want || static == strings.Contains(test.before, "dynamicConfigFile") {
				t.Errorf("got %q\nwant %q; static %v", got, test.want, static)
			}
			if again, static := pointTo(got, "/new.5", test.own); string(again) != test.want || static {
				t.Errorf("a second time: %q; static %v", again, static)
			}
		})
	}
}

// FuzzPointTo checks that the lines that should stay do, in their order, and that there is
// one dynamicConfigFile.
func FuzzPointTo(f *testing.F) {
	f.Add([]byte(staticFile), "/conf/zoo.cfg.dynamic.10", true)
	f.Add([]byte("a=1\\\r\n  server.1=x\r\nserver.2=\\\r\nx\r\\\n#\\"), `C:\zoo "ä".cfg`, false)
	f.Fuzz(func(t *testing.T, text []byte, name string, port bool) {
		name = "/" + name + ".1"
		escaped, err := escapeValue(name)
		if err != nil {
			return
		}
		var own Server
		if port {
			own.Client.Port = 1
		}
		l := newLoader(nil)
		settings := func(text []byte) (kept []string, pointers []string) {
			props, bad := readProperties(text, "")
			for _, p := range props {
				switch _, key, _ := l.row(p); {
				case key == "dynamicConfigFile":
					pointers = append(pointers, p.value)
				case !movesTo(own, key):
					kept = append(kept, p.key+"="+p.value)
				}
			}
			return append(kept, fmt.Sprint(len(bad))), pointers
		}
		before, _ := settings(text)
		after, _ := pointTo(text, escaped, own)
		got, pointers := settings(after)
		if !slices.Equal(before, got) || !slices.Equal(pointers, []string{name}) {
			t.Fatalf("%q\nbecame %q\nkept %q\nof %q\npointers %q", text, after, got, before, pointers)
		}
		for _, line := range settingLines(after) {
			if movesTo(own, line.key) {
				t.Fatalf("%s is in %q", line.key, after)
			}
		}
		if again, static := pointTo(after, escaped, own); static || string(again) != string(after) {
			t.Fatalf("%q\nbecame %q\nthe second time", after, again)
		}
	})
}

// confDisk returns a disk with zoo.cfg in /conf.
func confDisk(t *testing.T, text string) *crashfs.FS {
	t.Helper()
	disk := crashfs.New(1)
	if err := errors.Join(disk.MkdirAll("/conf"), putFile(disk, "/conf/zoo.cfg", text)); err != nil {
		t.Fatal(err)
	}
	return disk
}

func putFile(fsys vfs.FS, name, text string) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), 0)
	return errors.Join(err, f.Sync(), f.Close(), fsys.SyncDir(filepath.Dir(name)))
}

// loadMembers loads /conf/zoo.cfg of server 1 as a start does, and returns its members.
func loadMembers(fsys vfs.FS) (Members, error) {
	read := func(name string) ([]byte, error) { return vfs.ReadFile(fsys, name) }
	text, err := read("/conf/zoo.cfg")
	if err != nil {
		return Members{}, err
	}
	c, _, err := newLoader(read).load(text, "/conf/zoo.cfg", []Setting{Override("zkd.myid", "1")})
	if err != nil {
		return Members{}, err
	}
	if c.ClientPort != 2181 {
		return Members{}, fmt.Errorf("the client port is %d", c.ClientPort)
	}
	return c.Members, nil
}

// same reports whether a and b are the same members of the same version.
func same(a, b Members) bool { return a.Text() == b.Text() && a.Version == b.Version }

// changed returns members of a version that has one more server than three.
func changed(t *testing.T, version uint64) Members {
	t.Helper()
	m := membersOf(t, three+fmt.Sprintf("server.4=d:%d:3888;2181", version))
	m.Version = version
	return m
}

func wantFile(t *testing.T, fsys vfs.FS, name, want string) {
	t.Helper()
	if got, err := vfs.ReadFile(fsys, name); err != nil || string(got) != want {
		t.Errorf("%s has, with %v,\n%swant\n%s", name, err, got, want)
	}
}

func TestSaveMembers(t *testing.T) {
	disk := confDisk(t, staticFile)
	first, second := changed(t, 0x1b), changed(t, 0x200c)
	for range 2 { // the second time nothing is to do
		if err := SaveMembers(disk, "/conf/zoo.cfg", first, 1); err != nil {
			t.Fatal(err)
		}
		wantFile(t, disk, "/conf/zoo.cfg", dynamicFile)
		wantFile(t, disk, "/conf/zoo.cfg.bak", staticFile)
		wantFile(t, disk, "/conf/zoo.cfg.dynamic.1b", first.Text())
		if m, err := loadMembers(disk); err != nil || !same(m, first) {
			t.Errorf("loaded %+v, %v", m, err)
		}
		disk.SetHook(func(op crashfs.Op) error {
			if op.Kind.Mutates() && op.Kind != crashfs.OpSyncDir {
				t.Errorf("nothing was to do, and there is %+v", op)
			}
			return nil
		})
	}
	disk.SetHook(nil)
	if err := SaveMembers(disk, "/conf/zoo.cfg", second, 1); err != nil {
		t.Fatal(err)
	}
	wantFile(t, disk, "/conf/zoo.cfg", strings.Replace(dynamicFile, ".1b", ".200c", 1))
	wantFile(t, disk, "/conf/zoo.cfg.bak", staticFile)
	wantFile(t, disk, "/conf/zoo.cfg.dynamic.1b", first.Text())
	wantFile(t, disk, "/conf/zoo.cfg.dynamic.200c", second.Text())
	entries, err := disk.Crash(nil).ReadDir("/conf")
	if err != nil || len(entries) != 4 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestSecurePortWithoutKeys has a change of the members give a server without keys a port with TLS for clients: the server starts, and says
// that the port stays closed. In the file that people write, such a port is an error.
func TestSecurePortWithoutKeys(t *testing.T) {
	name := filepath.Join(t.TempDir(), "zoo.cfg")
	text := "dataDir=/d\nzkd.myid=1\ninitLimit=5\nsyncLimit=2\nreconfigEnabled=true\nserver.1=zk1:2888:3888;2181"
	if err := os.WriteFile(name, []byte(text+"\nserver.2=zk2:2888:3888;2181;2281\nserver.3=zk3:2888:3888;2181\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, _, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	next, _, err := (&Change{Joining: "server.1=zk1:2888:3888;2181;2281"}).Apply(before.Members, before.ChangeOptions())
	if err != nil {
		t.Fatal(err)
	}
	next.Version = 0x1b
	if err := SaveMembers(vfs.OS{}, name, next, 1); err != nil {
		t.Fatal(err)
	}
	c, warnings, err := Load(name)
	if err != nil || c.ClientTLS.Port >= 0 || c.ClientPort != 2181 || len(warnings) != 1 || !strings.Contains(warnings[0].String(), "stays closed") {
		t.Errorf("got %+v, %v, %v", c, warnings, err)
	}
	if _, _, err := Parse(strings.NewReader(text+";2281\nserver.2=zk2:2888:3888\n"), "zoo.cfg"); err == nil || !strings.Contains(err.Error(), "ssl.keyStore.location") {
		t.Errorf("such a line of a file that people write: %v", err)
	}
}

// A file of members that is damaged, or that somebody edited, is written again.
func TestSaveMembersRepairs(t *testing.T) {
	disk := confDisk(t, dynamicFile)
	if err := putFile(disk, "/conf/zoo.cfg.dynamic.1b", ""); err != nil {
		t.Fatal(err)
	}
	if err := SaveMembers(disk, "/conf/zoo.cfg", changed(t, 0x1b), 1); err != nil {
		t.Fatal(err)
	}
	if m, err := loadMembers(disk); err != nil || !same(m, changed(t, 0x1b)) {
		t.Errorf("loaded %+v, %v", m, err)
	}
}

// atEachStep runs SaveMembers on new disks and interrupts it before each of its operations
// that change something. zoo.cfg was static, or named a file of members before.
func atEachStep(t *testing.T, interrupt func(t *testing.T, disk *crashfs.FS, before, after Members, step int) (more bool)) {
	for _, start := range []string{"static", "dynamic"} {
		t.Run(start, func(t *testing.T) {
			for step := 1; ; step++ {
				disk := confDisk(t, staticFile)
				if start == "dynamic" {
					if err := SaveMembers(disk, "/conf/zoo.cfg", changed(t, 0x1b), 1); err != nil {
						t.Fatal(err)
					}
				}
				before, err := loadMembers(disk)
				if err != nil {
					t.Fatal(err)
				}
				if !interrupt(t, disk, before, changed(t, 0x2c), step) {
					if step < 12 {
						t.Errorf("only %d steps", step)
					}
					return
				}
			}
		})
	}
}

// TestSaveMembersCrash cuts the power before each operation, and after the last.
func TestSaveMembersCrash(t *testing.T) {
	crashes := uint64(20)
	if testing.Short() {
		crashes = 6
	}
	atEachStep(t, func(t *testing.T, disk *crashfs.FS, before, after Members, step int) bool {
		var crashed []*crashfs.FS
		n := 0
		crash := func() {
			crashed = append(crashed, disk.Kill(), disk.Crash(nil))
			for seed := range crashes {
				crashed = append(crashed, disk.Crash(rand.New(rand.NewPCG(seed, uint64(step)))))
			}
		}
		disk.SetHook(func(op crashfs.Op) error {
			if op.Kind.Mutates() {
				if n++; n == step {
					crash()
				}
			}
			return nil
		})
		if err := SaveMembers(disk, "/conf/zoo.cfg", after, 1); err != nil {
			t.Fatal(err)
		}
		more := n >= step
		if !more {
			crashed = append(crashed, disk.Crash(nil))
		}
		for i, left := range crashed {
			m, err := loadMembers(left)
			if err != nil || !same(m, after) && (!more || !same(m, before)) {
				t.Errorf("step %d, crash %d: loaded %+v, %v", step, i, m, err)
			}
			if err := SaveMembers(left, "/conf/zoo.cfg", after, 1); err != nil {
				t.Errorf("step %d, crash %d: %v", step, i, err)
			}
			if m, err := loadMembers(left.Crash(nil)); err != nil || !same(m, after) {
				t.Errorf("step %d, crash %d: loaded %+v, %v after the second call", step, i, m, err)
			}
		}
		return more
	})
}

// TestSaveMembersFault lets each operation fail, and then cuts the power or calls again.
func TestSaveMembersFault(t *testing.T) {
	atEachStep(t, func(t *testing.T, disk *crashfs.FS, before, after Members, step int) bool {
		n := 0
		disk.SetHook(func(op crashfs.Op) error {
			if op.Kind.Mutates() {
				if n++; n == step {
					return crashfs.ErrInjected
				}
			}
			return nil
		})
		err := SaveMembers(disk, "/conf/zoo.cfg", after, 1)
		if n < step {
			return false
		}
		if !errors.Is(err, crashfs.ErrInjected) {
			t.Errorf("step %d: %v", step, err)
		}
		for seed := range uint64(20) {
			m, err := loadMembers(disk.Crash(rand.New(rand.NewPCG(seed, uint64(step)))))
			if err != nil || !same(m, before) && !same(m, after) {
				t.Errorf("step %d: loaded %+v, %v", step, m, err)
			}
		}
		if err := SaveMembers(disk, "/conf/zoo.cfg", after, 1); err != nil {
			t.Errorf("step %d: again: %v", step, err)
		}
		if m, err := loadMembers(disk); err != nil || !same(m, after) {
			t.Errorf("step %d: loaded %+v, %v after the second call", step, m, err)
		}
		// The second call can't know what a failed sync of the directory left.
		if m, err := loadMembers(disk.Crash(nil)); err != nil || !same(m, before) && !same(m, after) {
			t.Errorf("step %d: loaded %+v, %v after the crash", step, m, err)
		}
		return true
	})
}

func TestSaveMembersFullDisk(t *testing.T) {
	for blocks := int64(1); blocks <= 3; blocks++ { // of the four that it takes
		disk := confDisk(t, staticFile)
		disk.SetCapacity(blocks << 12)
		if err := SaveMembers(disk, "/conf/zoo.cfg", changed(t, 5), 1); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%d blocks: %v", blocks, err)
		}
		wantFile(t, disk, "/conf/zoo.cfg", staticFile)
		disk.SetCapacity(0)
		if err := SaveMembers(disk, "/conf/zoo.cfg", changed(t, 5), 1); err != nil {
			t.Errorf("%d blocks: again: %v", blocks, err)
		}
		if m, err := loadMembers(disk); err != nil || !same(m, changed(t, 5)) {
			t.Errorf("%d blocks: loaded %+v, %v", blocks, m, err)
		}
	}
}

func TestSaveMembersReadOnly(t *testing.T) {
	disk := confDisk(t, staticFile)
	disk.SetHook(func(op crashfs.Op) error {
		if op.Kind.Mutates() {
			return syscall.EROFS
		}
		return nil
	})
	err := SaveMembers(disk, "/conf/zoo.cfg", changed(t, 5), 1)
	const want = "save the members of version 5: create /conf/zoo.cfg.bak.tmp: read-only file system (put /conf/zoo.cfg into a directory where the server may write)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	wantFile(t, disk, "/conf/zoo.cfg", staticFile)
}

// TestSaveMembersOS checks links, modes and relative paths with real files.
func TestSaveMembersOS(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := errors.Join(os.Mkdir("real", 0o755), os.Mkdir("etc", 0o755), os.WriteFile("real/zoo.cfg", []byte(staticFile), 0o600),
		os.Chmod("real/zoo.cfg", 0o646), os.Symlink("../real/zoo.cfg", "etc/zoo.cfg")); err != nil {
		t.Fatal(err)
	}
	m := changed(t, 0x1b)
	if err := SaveMembers(vfs.OS{}, "etc/zoo.cfg", m, 1); err != nil {
		t.Fatal(err)
	}
	if link, err := os.Readlink("etc/zoo.cfg"); err != nil || link != "../real/zoo.cfg" {
		t.Errorf("the link leads to %q, %v", link, err)
	}
	for _, name := range []string{"zoo.cfg", "zoo.cfg.bak", "zoo.cfg.dynamic.1b"} {
		info, err := os.Stat(filepath.Join("real", name))
		if err != nil || info.Mode() != 0o646 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	c, _, err := Load("etc/zoo.cfg", Override("zkd.myid", "1"))
	if err != nil || !same(c.Members, m) || !filepath.IsAbs(c.DynamicConfigFile) || c.File != "etc/zoo.cfg" {
		t.Errorf("loaded %+v, %v", c, err)
	}
	if err := SaveMembers(vfs.OS{}, "none/zoo.cfg", m, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
}
