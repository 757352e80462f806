package server

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/wal"
)

func (s *testServer) digest() datatree.Digest {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.state.Tree.Digest()
}

// work lets clients make random changes concurrently, including sessions with ephemerals.
func (s *testServer) work(t *testing.T, seed uint64, clients, requests int) {
	t.Helper()
	var wg sync.WaitGroup
	for n := range clients {
		c := s.connect(t)
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		wg.Go(func() {
			for i := range requests {
				path := "/x" + strconv.Itoa(rng.IntN(300))
				data := strings.Repeat("d", rng.IntN(200))
				switch rng.IntN(8) {
				case 0, 1, 2:
					c.send(jute.OpCreate, create(path, data, jute.CreateMode(rng.IntN(4))))
				case 3:
					c.send(jute.OpDelete, del(path))
				case 4:
					c.send(jute.OpSetACL, &jute.SetACLRequest{Path: path, ACL: []jute.ACL{
						{Perms: jute.PermAll, ID: jute.WorldAnyone}, {Perms: jute.PermRead, ID: jute.ID{Scheme: "ip", ID: "10.0.0." + strconv.Itoa(rng.IntN(9))}},
					}, Version: -1})
				case 5:
					c.send(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{
						{Type: jute.OpSetData, Path: path, Data: []byte(data), Version: -1},
						{Type: jute.OpCreate, Path: path + "/m" + strconv.Itoa(i), ACL: openACL},
					}})
				default:
					c.send(jute.OpSetData, set(path, data))
				}
				if i%20 == 19 {
					for c.must().Xid != c.xid {
					}
				}
			}
			c.ok(jute.OpSync, &jute.PathRequest{Path: "/"})
			if rng.IntN(2) == 0 {
				c.ok(jute.OpCloseSession, nil)
			}
		})
	}
	wg.Wait()
}

// TestASnapshotOfAReplacedHistoryIsNotKept replaces the history while a snapshot of it is written, as a
// snapshot from the leader does.
func TestASnapshotOfAReplacedHistoryIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		s.connect(t).create("/a", "")
		sn := s.snapshots
		s.state.Lock()
		view := newFrozen(&s.state, sn.installs.Load())
		s.state.Unlock()
		defer func() {
			s.state.Lock()
			view.Close()
			s.state.Unlock()
		}()
		before, _ := sn.Last()
		sn.replacing()
		ref, err := sn.write(view, false)
		if !errors.Is(err, errReplaced) {
			t.Errorf("got %v, want %v", err, errReplaced)
		}
		if now, _ := sn.Last(); now.Name != before.Name {
			t.Errorf("the log refers to %v", now)
		}
		if _, err := s.opts.FS.Stat(sn.store.Path(ref.Name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file %s is left: %v", ref.Name, err)
		}
	})
}

// TestRestartsUnderSnapshots checks that with a snapshot every few transactions, taken
// while clients work, each restart recovers the same tree, and old snapshots and log
// segments are removed.
func TestRestartsUnderSnapshots(t *testing.T) {
	dir := t.TempDir()
	seed := seeds.First(t)
	s := startOn(t, fastFS{}, dir, "snapCount=200", "forceSync=no", "maxSessionTimeout=3600000")
	for round := range uint64(4) {
		s.work(t, seed+round, 4, 1000)
		if round == 3 { // the last is done without what the first rounds left
			break
		}
		want, zxid := s.digest(), s.state.Applied()
		s = s.restart(t)
		if got := s.digest(); got != want || s.state.Applied() != zxid {
			t.Fatalf("seed %d round %d: digest %v at %v after the restart, was %v at %v", seed, round, got, s.state.Applied(), want, zxid)
		}
	}
	if n := s.metrics.SnapshotErrors.Load(); n != 0 {
		t.Errorf("%d snapshots failed", n)
	}
	s.noErrors(t)
	want := s.digest()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	snaps, _ := filepath.Glob(filepath.Join(dir, "snap", "*.db"))
	if len(snaps) == 0 || len(snaps) > 4 { // 3, and one may be new since the last purge
		t.Errorf("%d snapshots are left: %v", len(snaps), snaps)
	}
	if rest, _ := os.ReadDir(filepath.Join(dir, "tmp")); len(rest) > 0 {
		t.Errorf("left in tmp: %v", rest)
	}

	// Each older snapshot is used when the newer ones are damaged.
	for i := len(snaps) - 1; i > 0; i-- {
		damage(t, snaps[i])
		s = startWith(t, s.opts)
		if got := s.digest(); got != want {
			t.Errorf("with %d damaged snapshots: digest %v, want %v", len(snaps)-i, got, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// Without any, the server starts from the whole log, or not at all.
	damage(t, snaps[0])
	last := newTestServer(t, s.opts)
	err := last.Start(t.Context())
	if err == nil {
		defer last.Close()
		if got := last.digest(); got != want {
			t.Errorf("without a sound snapshot: digest %v, want %v", got, want)
		}
	}
	t.Logf("all %d damaged: %v", len(snaps), err)
}

func damage(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 0x40
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPurgeKeepsASoundSnapshot checks that damaged snapshots do not count when old ones
// are removed.
func TestPurgeKeepsASoundSnapshot(t *testing.T) {
	dir := t.TempDir()
	s := startOn(t, fastFS{}, dir, "snapCount=100", "forceSync=no")
	list := func() []string {
		files, _ := filepath.Glob(filepath.Join(dir, "snap", "*.db"))
		return files
	}
	for len(list()) < 3 {
		s.work(t, 1, 1, 200)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	snaps := list()
	for _, f := range snaps[1:] {
		damage(t, f)
	}
	s = startWith(t, s.opts)
	before := s.metrics.Snapshot.Count()
	for s.metrics.Snapshot.Count() == before {
		s.work(t, 2, 1, 200)
	}
	want := s.digest()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	now := list()
	damage(t, now[len(now)-1])
	again := newTestServer(t, s.opts)
	if err := again.Start(t.Context()); err != nil {
		t.Fatalf("one new snapshot was written and lost: %v (before %v, now %v)", err, snaps, now)
	}
	defer again.Close()
	if again.digest() != want {
		t.Error("another tree")
	}
}

// TestPowerCutsLoseNothingAcknowledged checks that when the file system keeps only the
// synced data and random parts of the rest, at any moment, the next server has at least
// the acknowledged data.
func TestPowerCutsLoseNothingAcknowledged(t *testing.T) {
	seed := seeds.First(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	fs := crashfs.New(seed)
	acked := map[string]int{}
	for round := range 15 {
		synctest.Test(t, func(t *testing.T) {
			s := startOn(t, fs, "/data")
			check := s.connect(t)
			for path, n := range acked {
				data, _ := check.get(path)
				if got, _ := strconv.Atoi(data); got < n {
					t.Fatalf("seed %d round %d: %s is %q, %d was acknowledged", seed, round, path, data, n)
				}
			}
			var mu sync.Mutex
			var cut *crashfs.FS
			left := rng.IntN(60)
			fs.SetHook(func(op crashfs.Op) error { // the power goes between two operations
				mu.Lock()
				defer mu.Unlock()
				if left--; left == 0 {
					cut = fs.Crash(rng)
				}
				return nil
			})
			var wg sync.WaitGroup
			for n := range 3 {
				c := s.connect(t)
				path := "/n" + strconv.Itoa(n)
				c.call(jute.OpCreate, create(path, "0", 0))
				first, _ := c.get(path)
				base, _ := strconv.Atoi(first)
				wg.Go(func() {
					for i := range 20 {
						c.set(path, strconv.Itoa(base+i+1))
						mu.Lock()
						if cut == nil {
							acked[path] = base + i + 1
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			s.Close()
			mu.Lock()
			defer mu.Unlock()
			if cut == nil {
				cut = fs.Crash(rng)
			}
			fs = cut
		})
		if t.Failed() {
			return
		}
	}
}

// TestSessionsAndContainersSurviveASnapshot checks the state other than nodes.
func TestSessionsAndContainersSurviveASnapshot(t *testing.T) {
	dir := t.TempDir()
	s := startOn(t, fastFS{}, dir, "snapCount=50", "forceSync=no")
	c := s.connectFor(t, 20_000)
	c.ephemeral("/e")
	c.container("/c")
	c.ttl("/t", time.Hour)
	for s.metrics.Snapshot.Count() == 0 {
		s.work(t, 3, 1, 100)
	}
	s = s.restart(t)
	c.srv = s
	c = c.resume(t, 20_000)
	if c.session == 0 {
		t.Fatal("session is gone")
	}
	var paths jute.GetEphemeralsResponse
	d := jute.NewDecoder(c.ok(jute.OpGetEphemerals, &jute.GetEphemeralsRequest{}).body)
	if paths.Decode(&d); len(paths.Paths) != 1 || paths.Paths[0] != "/e" {
		t.Errorf("ephemerals %v", paths.Paths)
	}
	s.state.RLock()
	defer s.state.RUnlock()
	if n, _ := s.state.Tree.Get("/c"); !n.Owner.Container() {
		t.Errorf("/c: %+v", n)
	}
	if n, _ := s.state.Tree.Get("/t"); n.Owner != jute.OwnerTTL(time.Hour.Milliseconds()) {
		t.Errorf("/t: %+v", n)
	}
}

// TestServerOutlivesAnEpoch checks that the 2^32nd write is an ordinary one, and so is
// the start after it.
func TestServerOutlivesAnEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := crashfs.New(1)
		s := newTestServer(t, Options{FS: fs, Config: parseConfig(t, "/data")})
		ident := data.NewIdentity()
		ident.Format = 1 // which had no file IDENTITY in dataDir
		log, _, err := wal.Open(wal.Options{FS: fs, Dir: data.LogDir("/data"), SegmentSize: s.cfg.WALSegmentSize, Ident: ident.Encode()})
		if err != nil {
			t.Fatal(err)
		}
		last := jute.MakeZxid(0, ^uint32(0)-2)
		txn := datatree.Txn{Zxid: last, Err: jute.ErrNoNode}
		w := wal.NewWriter(log, wal.WriterOptions{})
		if err := w.SubmitWait(wal.Record{Kind: wal.Append, Zxid: last, Payload: txn.Append(nil)}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := s.connect(t) // 0xfffffffe
		c.create("/a", "")
		if r := c.set("/a", "x"); r.Zxid != jute.MakeZxid(1, 1) {
			t.Errorf("write behind the last of an epoch: %v", r)
		}
		s = s.restart(t)
		c = s.connect(t)
		if data, _ := c.get("/a"); data != "x" {
			t.Errorf("after a restart the data is %q", data)
		}
		c.create("/b", "")
		s.noErrors(t)
	})
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
