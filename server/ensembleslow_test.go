package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// TestBurstsOverSlowLinks writes a burst over links that transfer less than a tenth of it
// within the heartbeat timeout. The leader stays, all writes are acknowledged, and the
// followers still answer reads by themselves.
func TestBurstsOverSlowLinks(t *testing.T) {
	for _, tt := range []struct{ rate, value, sets int }{
		{1_000_000, 250_000, 60}, {500_000, 1_000_000, 5}, {4_000_000, 1_000_000, 15},
	} {
		t.Run(fmt.Sprintf("rate=%d/value=%d", tt.rate, tt.value), func(t *testing.T) {
			inBubble(t, 3, []string{"jute.maxbuffer=2000000"}, func(t *testing.T, e *testEnsemble) {
				leader := e.leader()
				epoch := e.servers[leader].standing.role.Load().Epoch
				w := e.servers[leader].dial(t, dialOptions{window: 64 << 20})
				w.establish(&jute.ConnectRequest{TimeoutMs: 20_000, Password: make([]byte, 16), HasReadOnly: true})
				w.create("/a", "")
				reader := e.servers[e.follower()].connect(t)
				e.net.setRate(tt.rate)
				acked := make(chan struct{})
				go func() {
					defer close(acked)
					for i := range tt.sets {
						w.send(jute.OpSetData, set("/a", strings.Repeat("x", tt.value)+fmt.Sprint(i)))
					}
					for i := range tt.sets {
						if r, err := w.next(); err != nil || r.Err != 0 {
							t.Errorf("set %d: %v %v", i, r.Err, err)
							return
						}
					}
				}()
				for slowest := time.Duration(0); ; time.Sleep(100 * time.Millisecond) {
					begun := time.Now()
					reader.get("/zookeeper")
					slowest = max(slowest, time.Since(begun))
					select {
					case <-acked:
					default:
						continue
					}
					if slowest > 0 {
						t.Errorf("a read took %v", slowest)
					}
					break
				}
				if st := e.servers[leader].standing.role.Load(); st.Role != zab.Leading || st.Epoch != epoch {
					t.Errorf("server %d led epoch %d, and is now: %s", leader, epoch, e.roles())
				}
				e.net.setRate(0)
				e.settled()
			})
		})
	}
}

// An empty server joins an ensemble with a tree of 1 MB, over links of 120 KB per second, while a client
// writes more than that: one snapshot is sent, and the log after it is kept, although more newer snapshots are taken
// than are to be kept.
func TestJoinerIsServedToTheEnd(t *testing.T) {
	dir := t.TempDir() // snapshots need real files
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3, "snapCount=40", "autopurge.snapRetainCount=3", "autopurge.purgeInterval=1")
		e.dir = dir
		e.tune = func(s *Server) { s.limits.cache = 64 << 10 }
		e.startAll()
		leader := e.servers[e.leader()]
		time.Sleep(2 * time.Second)
		c := leader.connect(t)
		rng := rand.NewChaCha8([32]byte{})
		value := func() string { // that compression makes no smaller
			b := make([]byte, 5000)
			rng.Read(b)
			return string(b)
		}
		for i := range 200 {
			c.create(fmt.Sprintf("/n%04d", i), value())
		}
		for i := range 500 {
			c.set(fmt.Sprintf("/n%04d", i%200), value())
			if i%20 == 0 {
				time.Sleep(time.Second) // snapshots are written concurrently
			}
		}
		if _, err := leader.logWriter.NewReader(0); !errors.Is(err, wal.ErrPurged) {
			t.Fatalf("the log still reaches back to the beginning: %v", err)
		}
		joiner := e.follower()
		e.stop(joiner)
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprint(joiner))); err != nil {
			t.Fatal(err)
		}
		e.net.setRateOf(joiner, 120_000)
		e.start(joiner)
		for i := range 600 {
			if e.servers[joiner].service.serving.Load() {
				if n := leader.metrics.SnapshotsSent.Load(); n != 1 || !leader.standing.leads() {
					t.Errorf("%d snapshots were sent; %s", n, e.roles())
				}
				if leader.logged.FilterMessageSnippet("was not sent").Len() > 0 || leader.snapshots.store == nil {
					t.Error("a snapshot was not delivered")
				}
				e.net.setRate(0)
				e.settled()
				return
			}
			for range max(1, 10-i/10) {
				c.set(fmt.Sprintf("/n%04d", i%200), value())
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Fatalf("server %d does not join within a minute: %s", joiner, e.roles())
	})
}

// TestPlanPurge tests which references are purged while a server is being synchronized.
func TestPlanPurge(t *testing.T) {
	s := startServer(t, "autopurge.snapRetainCount=3")
	refs := make([]wal.SnapRef, 5)
	for i := range refs {
		refs[i].Zxid = jute.Zxid(10 * (i + 1))
	}
	for _, tt := range []struct {
		needed jute.Zxid
		level  wal.SpaceLevel
		from   int
	}{
		{1000, wal.SpaceOK, 2},
		{30, wal.SpaceOK, 2}, // the log after 30, and the snapshot there
		{29, wal.SpaceOK, 1},
		{20, wal.SpaceOK, 1},
		{19, wal.SpaceOK, 0},
		{5, wal.SpaceOK, 0},
		{5, wal.SpaceWarn, 2}, // the disk takes precedence
		{5, wal.SpaceStop, 2},
		{1000, wal.SpaceStop, 2},
	} {
		s.snapshots.needed.Store(int64(tt.needed))
		s.disk.level.Store(int32(tt.level))
		if from := s.snapshots.planPurge(refs, 0, false).Drop; from != tt.from {
			t.Errorf("behind %v is needed, room %v: keeps from %d on, want %d", tt.needed, tt.level, from, tt.from)
		}
		if holding := s.snapshots.holding.Load(); holding != (tt.from < 2) {
			t.Errorf("behind %v is needed, room %v: holds %v", tt.needed, tt.level, holding)
		}
	}
	if n := s.logged.FilterMessageSnippet("although a server that joins needs it").Len(); n != 2 {
		t.Errorf("%d warnings that a joining server has to begin again, want 2", n)
	}
	s.disk.level.Store(int32(wal.SpaceOK))
}

// TestTightDiskPurges checks that when the disk gets full, data kept for a joining server
// is purged at once.
func TestTightDiskPurges(t *testing.T) {
	s := startServer(t)
	s.snapshots.purgeForSpace()
	if len(s.snapshots.tight) > 0 {
		t.Error("wants a purge although nothing is kept")
	}
	s.snapshots.holding.Store(true)
	s.snapshots.mu.Lock() // so that the purge waits
	s.snapshots.purgeForSpace()
	s.snapshots.purgeForSpace()
	s.snapshots.mu.Unlock()
}

// streams opens streams of snapshots from one server to another that no core has
// requested, and returns when each is held up or over.
func (e *testEnsemble) streams(from, to, count int) (ended <-chan error) {
	e.t.Helper()
	ch := make(chan error, count)
	for i := range count {
		ref := wal.SnapRef{Zxid: 0x100000001, Name: "0000000100000001-1.db", Size: 1 << 20, Digest: make([]byte, 16)}
		s, err := e.servers[from].loop.transport.OpenStream(e.t.Context(), zab.SID(to), appendSnapHeader(nil, uint64(100+i), &ref))
		if err != nil {
			e.t.Fatal(err)
		}
		go func() {
			_, err := s.Write(make([]byte, 1<<20))
			if err == nil {
				err = s.Close()
			}
			s.Abort(nil)
			ch <- err
		}()
		synctest.Wait()
	}
	return ch
}

// snapFiles lists the files in a server's directories of snapshots.
func (e *testEnsemble) snapFiles(id int) (list []string) {
	for _, dir := range []string{"snap", "tmp"} {
		entries, err := os.ReadDir(fmt.Sprintf("%s/%d/%s", e.dir, id, dir))
		if err != nil {
			e.t.Fatal(err)
		}
		for _, f := range entries {
			list = append(list, dir+"/"+f.Name())
		}
	}
	return list
}

// TestUnwantedSnapshotsAreNotRead checks that snapshots that no leader has announced are
// neither read nor kept, however many arrive, and that they leave nothing when the link
// or the role ends.
func TestUnwantedSnapshotsAreNotRead(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.dir = dir
		e.startAll()
		leader, to := e.leader(), e.follower()
		other := 6 - leader - to
		time.Sleep(2 * time.Second)
		e.settled()
		before := e.snapFiles(to)
		a := e.servers[to].loop.arrivals
		for _, from := range []int{leader, other} {
			ended := e.streams(from, to, 5)
			if n := len(ended); n != 4 {
				t.Errorf("%d of 5 streams of server %d have ended: all but the newest should", n, from)
			}
		}
		sizes := a.sizes()
		if len(sizes) != 2 || sizes[0].Done+sizes[1].Done != 0 || !slices.Equal(e.snapFiles(to), before) {
			t.Errorf("arrivals %v, files %v; before there were %v", sizes, e.snapFiles(to), before)
		}
		e.net.sever(other, to, true)
		synctest.Wait()
		if sizes := a.sizes(); len(sizes) != 1 || int(sizes[0].Peer) != leader {
			t.Errorf("without the link to server %d: %v", other, sizes)
		}
		e.net.sever(other, to, false)
		e.stop(leader)
		e.leader()
		e.settled()
		if sizes := a.sizes(); len(sizes) != 0 || !slices.Equal(e.snapFiles(to), before) {
			t.Errorf("with another leader: %v, files %v", sizes, e.snapFiles(to))
		}
	})
}

// TestDamagedSnapshotIsNotKept checks that a snapshot that the core waits for is removed
// if it turns out to be invalid.
func TestDamagedSnapshotIsNotKept(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.dir = dir
		e.startAll()
		leader, to := e.leader(), e.follower()
		time.Sleep(2 * time.Second)
		before := e.snapFiles(to)
		a := e.servers[to].loop.arrivals
		ended := e.streams(leader, to, 1)
		synctest.Wait() // the peer loop also updates the wanted snapshot after a turn
		a.setWanted(zab.SID(leader), 100)
		if err := <-ended; err == nil || err == io.EOF {
			t.Errorf("the sender hears: %v", err)
		}
		if sizes := a.sizes(); len(sizes) != 0 || !slices.Equal(e.snapFiles(to), before) {
			t.Errorf("arrivals %v, files %v; before there were %v", sizes, e.snapFiles(to), before)
		}
	})
}

// TestSnapshotThatCameInVainIsRemoved checks that a valid snapshot that the core no
// longer wants when it is complete is removed when the link to its sender ends.
func TestSnapshotThatCameInVainIsRemoved(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.dir = dir
		e.startAll()
		leader, to := e.servers[e.leader()], e.follower()
		time.Sleep(2 * time.Second)
		ref, err := leader.snapshots.Newest(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(leader.snapshots.store.Path(ref.Name))
		if err != nil {
			t.Fatal(err)
		}
		before := e.snapFiles(to)
		a := e.servers[to].loop.arrivals
		synctest.Wait() // the peer loop also updates the wanted snapshot after a turn
		a.setWanted(leader.id, 100)
		ended := make(chan error)
		go func() {
			ended <- links{e.servers[to].loop, e.servers[to].life.Context()}.Stream(leader.id, appendSnapHeader(nil, 100, &ref), bytes.NewReader(b))
		}()
		synctest.Wait()
		if files := e.snapFiles(to); len(files) != len(before)+1 {
			t.Errorf("the snapshot is not there: %v; before there were %v", files, before)
		}
		a.drop(leader.id, errLinkLost)
		if err := <-ended; !errors.Is(err, errLinkLost) {
			t.Errorf("the stream ends with %v", err)
		}
		if files := e.snapFiles(to); !slices.Equal(files, before) {
			t.Errorf("files %v; before there were %v", files, before)
		}
	})
}

// TestReaderOfTheLogForgets checks that a request for entries that are not in the log yet
// waits for the log, without a timer, and no longer than the link to the learner or the
// role lasts.
func TestReaderOfTheLogForgets(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		id := e.leader()
		leader := e.servers[id]
		l := leader.loop.learners
		ask := func(peer zab.SID) {
			l.reads.Put(zab.LogRead{Peer: peer, Gen: 1, After: leader.state.Applied(), MaxBytes: 1000})
			synctest.Wait()
		}
		want := func(n int64, when string) {
			t.Helper()
			synctest.Wait()
			if got := l.waiting.Load(); got != n {
				t.Errorf("%s: %d requests wait, want %d", when, got, n)
			}
		}
		for range 3 {
			ask(7)
		}
		ask(8)
		want(2, "two peers have asked")
		l.forget(7)
		want(1, "one is gone")
		c := leader.connect(t)
		c.create("/a", "")
		want(0, "more is in the log")
		ask(7)
		ask(8)
		want(2, "both have asked again")
		for other := 1; other <= 3; other++ {
			if other != id {
				e.net.sever(id, other, true)
			}
		}
		time.Sleep(5 * time.Second)
		if leader.standing.leads() {
			t.Fatal("it still leads")
		}
		want(0, "it does not lead any more")
	})
}
