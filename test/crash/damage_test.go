package crash

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// noSnapshots keeps all of the history in the log, in small segments.
var noSnapshots = []string{"snapCount=1000000000", "zkd.walSegmentSizeKb=4096", "jute.maxbuffer=131072", "tickTime=100", "maxSessionTimeout=60000"}

// fillWith makes n nodes with names that count up, and returns the zxid of each.
func fillWith(t *testing.T, s *server, n int, size int) []jute.Zxid {
	t.Helper()
	c := s.connect()
	defer c.Close()
	zxids := make([]jute.Zxid, n)
	for i := range n {
		r, err := c.call(jute.OpCreate, &jute.CreateRequest{Path: fmt.Sprintf("/n%06d", i), Data: make([]byte, size), ACL: openACL})
		if err == nil {
			err = r.err()
		}
		if err != nil {
			t.Fatal(err)
		}
		zxids[i] = r.Zxid
	}
	return zxids
}

func childrenOf(t *testing.T, s *server) []string {
	t.Helper()
	c := s.connect()
	defer c.Close()
	names, err := c.children("/")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "zookeeper" })
	slices.Sort(names)
	return names
}

// fingerprint returns a hash of all files below dir but the lock and unfinished
// snapshots, which a start removes.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(d.Name(), "LOCK") || filepath.Base(filepath.Dir(path)) == "tmp" {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintln(h, path, len(b))
		h.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// flip changes one byte of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	overwrite(t, f, at, b)
}

// refusesTwice starts the server twice: it must not start either time, nor touch
// a file.
func refusesTwice(t *testing.T, s *server) string {
	t.Helper()
	return refusesTouchingNothing(t, s, s.Data)
}

// refusesTouchingNothing starts the server twice, which must fail and change no
// file in dir.
func refusesTouchingNothing(t *testing.T, s *server, dir string) string {
	t.Helper()
	before := fingerprint(t, dir)
	said := s.refuses()
	if again := s.refuses(); (again == "") != (said == "") {
		t.Errorf("first it says %q, then %q", said, again)
	}
	if fingerprint(t, dir) != before {
		t.Error("a server that refuses to start has changed files")
	}
	return said
}

var acceptFlag = regexp.MustCompile(`--accept-data-loss-after=(0x[0-9a-f]+)`)

// TestDamagedLog changes one byte in the middle of the log. The server must say
// where, what is affected and what can be done, and lose only what it is told to.
func TestDamagedLog(t *testing.T) {
	s := newServer(t, noSnapshots...)
	s.start()
	zxids := fillWith(t, s, 400, 10_000) // some segments
	s.Kill()
	segs := segments(t, s.Data)
	if len(segs) < 2 {
		t.Fatalf("%d segments, want more", len(segs))
	}
	list := records(t, segs[0])
	bad := list[len(list)/2]
	flip(t, segs[0], bad.start+recordHeader+20)

	said := refusesTwice(t, s)
	flag := acceptFlag.FindStringSubmatch(said)
	for _, want := range []string{segs[0], fmt.Sprintf("offset %d", bad.start), "zxids after", "up to at least " + zxids[len(zxids)-1].String()} {
		if !strings.Contains(said, want) {
			t.Errorf("the message lacks %q:\n%s", want, said)
		}
	}
	if flag == nil {
		t.Fatalf("the message does not name the flag:\n%s", said)
	}
	if want := (bad.zxid - 1).String(); flag[1] != want {
		t.Errorf("the message names zxid %s, want %s", flag[1], want)
	}
	s.args = []string{"--accept-data-loss-after=0x1"}
	refusesTwice(t, s)
	s.args = []string{flag[0]}
	s.start()
	want := 0
	for want < len(zxids) && zxids[want] < bad.zxid {
		want++
	}
	if got := childrenOf(t, s); len(got) != want || got[want-1] != fmt.Sprintf("n%06d", want-1) {
		t.Errorf("%d nodes up to %s are left, want %d", len(got), got[len(got)-1], want)
	}
	s.Kill()
	s.args = nil
	s.start() // the decision was made once and for all
	if got := childrenOf(t, s); len(got) != want {
		t.Errorf("%d nodes are left after another restart, want %d", len(got), want)
	}
}

// TestMissingSegments takes files of the log away.
func TestMissingSegments(t *testing.T) {
	s := newServer(t, noSnapshots...)
	s.start()
	fillWith(t, s, 700, 10_000)
	s.Kill()
	segs := segments(t, s.Data)
	if len(segs) < 3 {
		t.Fatalf("%d segments, want more", len(segs))
	}
	for i, seg := range segs {
		// The newest one that has records: behind it nothing shows that they were
		// there but its successor, if it has one.
		if i == len(segs)-1 {
			break
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			aside := filepath.Join(t.TempDir(), "aside")
			rename(t, seg, aside)
			s.T = t
			said := refusesTwice(t, s)
			if !strings.Contains(said, "journal") || !strings.Contains(said, "zxid") {
				t.Errorf("the message does not say what is missing:\n%s", said)
			}
			rename(t, aside, seg)
		})
	}
	s.T = t
	s.start()
	if got := childrenOf(t, s); len(got) != 700 {
		t.Errorf("%d nodes, want 700", len(got))
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from) // the two may be on different disks
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err == nil {
		err = os.Remove(from)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestMissingLog takes the whole log away and leaves the snapshots: a server that
// began with an empty tree would lose everything.
func TestMissingLog(t *testing.T) {
	full := withSnapshots(t, 1)
	for _, how := range []string{"removed", "emptied"} {
		t.Run(how, func(t *testing.T) {
			s := full.copy(t)
			journal := filepath.Join(s.Data, "journal")
			aside := filepath.Join(t.TempDir(), "journal")
			if err := os.Rename(journal, aside); err != nil {
				t.Fatal(err)
			}
			if how == "emptied" {
				if err := os.Mkdir(journal, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if said := refusesTwice(t, s); !strings.Contains(said, "no log") || !strings.Contains(said, journal[:len(s.Data)]) {
				t.Errorf("the message does not say that the log is missing:\n%s", said)
			}
			if err := os.RemoveAll(journal); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(aside, journal); err != nil {
				t.Fatal(err)
			}
			s.start()
			if got := childrenOf(t, s); len(got) != manyNodes {
				t.Errorf("%d nodes, want %d", len(got), manyNodes)
			}
		})
	}
}

const manyNodes = 2000

// retained is how many snapshots a purge keeps, by default.
const retained = 3

// withSnapshots returns a server that was killed, with nodes, some snapshots and
// a log that is purged or not. A purge cuts the log before it removes the snapshots that
// need what was cut: the server is not killed between the two, but stopped in each state
// that looks right until one is.
func withSnapshots(t *testing.T, purgeInterval int) *server {
	t.Helper()
	s := newServer(t, "snapCount=200", fmt.Sprintf("autopurge.purgeInterval=%d", purgeInterval), "zkd.walSegmentSizeKb=4096", "jute.maxbuffer=131072", "tickTime=100", "maxSessionTimeout=60000")
	s.start()
	fillWith(t, s, manyNodes, 2000)
	purged := func() bool {
		return filepath.Base(segments(t, s.Data)[0]) != "00000000000000000001.wal" && len(snapshotFiles(t, s)) == retained
	}
	ready := func() bool { return len(snapshotFiles(t, s)) >= retained }
	if purgeInterval != 0 {
		ready = purged
	}
	c := s.connect()
	if !s.Poll(func() bool {
		check(t, c.set("/n000000", make([]byte, 100_000)))
		if !ready() {
			return false
		}
		s.Signal(syscall.SIGSTOP)
		if ready() {
			return true
		}
		s.Signal(syscall.SIGCONT)
		return false
	}) {
		t.Fatalf("no state that the tests need: snapshots %q, segments %q", snapshotFiles(t, s), segments(t, s.Data))
	}
	s.Kill()
	return s
}

func snapshotFiles(t *testing.T, s *server) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Data, "snap", "*.db"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

// TestDamagedSnapshots damages snapshots in several ways. As long as an older one
// and the log after it make up for it, nothing is lost; else the server says so,
// and starts when one is put back.
func TestDamagedSnapshots(t *testing.T) {
	damage := map[string]func(t *testing.T, file string, size int64){
		"removed":           func(t *testing.T, file string, _ int64) { check(t, os.Remove(file)) },
		"emptied":           func(t *testing.T, file string, _ int64) { check(t, os.Truncate(file, 0)) },
		"truncated":         func(t *testing.T, file string, size int64) { check(t, os.Truncate(file, size/2)) },
		"flipped":           func(t *testing.T, file string, size int64) { flip(t, file, size*2/3) },
		"flipped in front":  func(t *testing.T, file string, _ int64) { flip(t, file, 20) },
		"longer":            func(t *testing.T, file string, size int64) { check(t, os.Truncate(file, size+4096)) },
		"made a directory":  func(t *testing.T, file string, _ int64) { check(t, os.Remove(file)); check(t, os.Mkdir(file, 0o700)) },
		"swapped for older": nil, // see below
	}
	full := withSnapshots(t, 1)
	for name, do := range damage {
		t.Run(name, func(t *testing.T) {
			s := full.copy(t)
			files := snapshotFiles(t, s)
			swapped := do == nil
			if swapped {
				older, err := os.ReadFile(files[0])
				check(t, err)
				do = func(t *testing.T, file string, _ int64) { check(t, os.WriteFile(file, older, 0o600)) }
				files = files[1:]
			}
			newest := files[len(files)-1]
			sound, err := os.ReadFile(newest)
			check(t, err)
			for i, file := range slices.Backward(files) {
				info, err := os.Stat(file)
				check(t, err)
				do(t, file, info.Size())
				if i > 0 || swapped { // an older one is left
					s.start()
					if got := childrenOf(t, s); len(got) != manyNodes {
						t.Errorf("with %d sound snapshots: %d nodes, want %d", i, len(got), manyNodes)
					}
					s.Kill()
				}
			}
			if swapped {
				return // the oldest is sound
			}
			said := refusesTouchingNothing(t, s, filepath.Join(s.Data, "snap"))
			if !strings.Contains(said, filepath.Base(newest)) || !strings.Contains(said, "backup") {
				t.Errorf("the message does not say what is damaged and what to do:\n%s", said)
			}
			n := len(segments(t, s.Data))
			s.refuses()
			if more := len(segments(t, s.Data)); more > n {
				t.Errorf("each start that is refused makes another segment: %d, then %d", n, more)
			}
			check(t, os.RemoveAll(newest))
			check(t, os.WriteFile(newest, sound, 0o600))
			s.start()
			if got := childrenOf(t, s); len(got) != manyNodes {
				t.Errorf("with the newest snapshot put back: %d nodes, want %d", len(got), manyNodes)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoSnapshotButWholeLog removes all snapshots of a server that never purged:
// the log has it all.
func TestNoSnapshotButWholeLog(t *testing.T) {
	s := withSnapshots(t, 0)
	for _, file := range snapshotFiles(t, s) {
		check(t, os.Remove(file))
	}
	s.start()
	if got := childrenOf(t, s); len(got) != manyNodes {
		t.Errorf("%d nodes, want %d", len(got), manyNodes)
	}
}

// TestSecondProcess starts two servers on one data directory.
func TestSecondProcess(t *testing.T) {
	s := newServer(t, noSnapshots...)
	s.start()
	second := newServerIn(t, t.TempDir(), s.Data, noSnapshots...)
	if said := second.refuses(); !strings.Contains(said, s.Data) || !strings.Contains(said, fmt.Sprint(s.ID())) {
		t.Errorf("the message does not name the directory and the other process:\n%s", said)
	}
	if _, err := s.connect().create("/a", nil, jute.ModePersistent); err != nil {
		t.Errorf("the first server is disturbed: %v", err)
	}
}

// TestDataDirDeleted removes the files of a running server. What it acknowledges
// then is lost at its end, so it must not go on for long.
func TestDataDirDeleted(t *testing.T) {
	s := newServer(t, noSnapshots...)
	s.start()
	c := s.connect()
	if _, err := c.create("/a", nil, jute.ModePersistent); err != nil {
		t.Fatal(err)
	}
	check(t, os.RemoveAll(s.Data))
	if code := s.AwaitExit(); code == 0 {
		t.Error("exit code is 0")
	}
	if said := s.LogNow(); !strings.Contains(said, s.Data) {
		t.Errorf("the message does not name the directory:\n%s", said)
	}
}
