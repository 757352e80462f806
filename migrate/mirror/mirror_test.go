package mirror

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/datatree/treetest"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// newMirrors makes the data of three mirrors.
func newMirrors(t *testing.T) (places []data.Place) {
	t.Helper()
	for id := zab.SID(101); id <= 103; id++ {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(id))
		places = append(places, data.Place{DataDir: dir, LogDir: dir, Server: id})
		check(t, data.CreateMirror(places[len(places)-1], datadirs.OfApache))
	}
	return places
}

func openMirrors(t *testing.T, places []data.Place) (mirrors []*Mirror) {
	t.Helper()
	for _, p := range places {
		m, err := Open(t.Context(), p, datadirs.OfApache, nil)
		check(t, err)
		mirrors = append(mirrors, m)
	}
	return mirrors
}

func closeMirrors(t *testing.T, mirrors []*Mirror) {
	t.Helper()
	for _, m := range mirrors {
		check(t, m.Close())
	}
}

// follow gives a mirror the transactions of a small history after its last one, up to the zxid upTo.
func follow(t *testing.T, m *Mirror, upTo jute.Zxid) {
	t.Helper()
	const session = 0x100002d57e4000e
	var history []datatree.Txn
	add := func(z jute.Zxid, op datatree.Op) {
		history = append(history, datatree.Txn{Zxid: z, Time: 1000 + int64(z&0xff), Session: session, Cxid: int32(len(history)), Ops: []datatree.Op{op}})
	}
	add(0x300000006, datatree.Op{Kind: datatree.OpAdoptSession, TimeoutMs: 4000})
	add(0x300000007, datatree.Op{Kind: datatree.OpCreate, Path: "/a/e", Owner: jute.OwnerSession(session), Cversion: 10})
	for i := range jute.Zxid(40) { // epoch 4 has no transaction
		add(0x500000001+i, datatree.Op{Kind: datatree.OpSetData, Path: "/a", Data: []byte(strings.Repeat("x", 100)), Version: int32(i)})
	}
	var out datatree.Applied
	for i := range history {
		x := &history[i]
		if x.Zxid <= m.Last() || x.Zxid > upTo {
			continue
		}
		check(t, m.Append(x, func() ([]datatree.Event, error) {
			m.Tree().Apply(x, &out)
			return out.Events, nil
		}))
	}
	check(t, m.Sync())
}

const endOfHistory = 0x500000028

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func parseConfig(t testing.TB, dir string, lines ...string) *config.Config {
	t.Helper()
	text := "dataDir=" + dir + "\nclientPort=2181\ntickTime=1000\n4lw.commands.whitelist=*\n" + strings.Join(lines, "\n")
	cfg, _, err := config.Parse(strings.NewReader(text), "zoo.cfg")
	check(t, err)
	return cfg
}

// TestMirror makes mirrors at different times of a history, interrupts them, and makes an
// ensemble of them when they are equal.
func TestMirror(t *testing.T) {
	places := newMirrors(t)
	mirrors := openMirrors(t, places)
	for i, m := range mirrors {
		if m.Last() != 0 || m.Accepted() != 0 || m.ID() != places[i].Server {
			t.Errorf("a new mirror is of server %d, at %v", m.ID(), m.Last())
		}
		check(t, m.Accept(3))
		check(t, m.Install(t.Context(), treetest.Imported(t)))
		follow(t, m, 0x500000003+jute.Zxid(i))
	}
	if err := mirrors[0].Install(t.Context(), treetest.Imported(t)); err == nil {
		t.Error("a state replaces a later one")
	}
	check(t, mirrors[2].Accept(6))
	closeMirrors(t, mirrors)
	for _, p := range places {
		cfg := parseConfig(t, p.DataDir)
		if err := data.Check(cfg); err == nil || !strings.Contains(err.Error(), "zkd takeover finish") {
			t.Errorf("a server starts as a mirror, or: %v", err)
		}
		if err := data.CreateMirror(p, datadirs.OfApache); err == nil {
			t.Error("a mirror is made over another one")
		}
		if of, err := data.MirrorOf(p); of != datadirs.OfApache || err != nil {
			t.Errorf("no mirror: %v", err)
		}
	}

	mirrors = openMirrors(t, places)
	follow(t, mirrors[0], endOfHistory)
	follow(t, mirrors[1], endOfHistory)
	if err := MakeEnsemble(mirrors, 2); err == nil || !strings.Contains(err.Error(), "not equal") {
		t.Errorf("mirrors that are not equal: %v", err)
	}
	closeMirrors(t, mirrors)
	mirrors = openMirrors(t, places)
	follow(t, mirrors[2], endOfHistory)
	check(t, MakeEnsemble(mirrors, 2))
	closeMirrors(t, mirrors)
	checkFounded(t, places, 6+1+copies.EpochMargin)

	mirrors = openMirrors(t, places) // the command may be repeated
	check(t, MakeEnsemble(mirrors, 2))
	closeMirrors(t, mirrors)
	checkFounded(t, places, 6+1+copies.EpochMargin)
}

// checkFounded checks that these are the members of an ensemble that begins in an epoch.
func checkFounded(t *testing.T, places []data.Place, epoch uint32) {
	t.Helper()
	var first *data.Contents
	for _, p := range places {
		if of, err := data.MirrorOf(p); of != 0 || err != nil {
			t.Errorf("server %d is a mirror: %v", p.Server, err)
		}
		s, err := data.Read(t.Context(), p)
		check(t, err)
		if first == nil {
			first = s
		}
		if s.Tree.LastZxid() != jute.MakeZxid(epoch, 0) || s.Epoch != epoch || s.Voters != len(places) || s.Tree.Digest() != first.Tree.Digest() {
			t.Errorf("server %d: zxid %v, epoch %d, %d voters, digest %v", p.Server, s.Tree.LastZxid(), s.Epoch, s.Voters, s.Tree.Digest())
		}
		if !s.Tree.FromApache(0x100002d57e4000e) || s.Tree.NumEphemerals(0x100002d57e4000e) != 1 || !s.Tree.FromApache(0x100002d57e4000d) {
			t.Errorf("server %d: a session is lost, or not one of Apache's", p.Server)
		}
		if data, _ := s.Tree.Data(datatree.ConfigPath); !strings.HasPrefix(string(data), foundingText+"version=") {
			t.Errorf("the configuration is %q", data)
		}
	}
}

// TestFoundingIsInterrupted ends MakeEnsemble after each of its steps. No undecided mirror is
// taken for a member, and the next call ends what was begun.
func TestFoundingIsInterrupted(t *testing.T) {
	for stop := range 6 {
		places := newMirrors(t)
		mirrors := openMirrors(t, places)
		for _, m := range mirrors {
			check(t, m.Install(t.Context(), treetest.Imported(t)))
			follow(t, m, endOfHistory)
		}
		var founders []Founder
		for _, m := range mirrors {
			founders = append(founders, m.Founder())
		}
		f, err := mirrors[0].NewFounding(founders, 5)
		check(t, err)
		for _, m := range mirrors {
			_, err := m.ExpectedDigest(f)
			check(t, err)
		}
		for i := range stop + 1 {
			if m := mirrors[i/2]; i%2 == 0 {
				check(t, m.logFounding(f))
			} else {
				check(t, m.endMirror())
			}
		}
		closeMirrors(t, mirrors)
		for i, p := range places {
			if of, err := data.MirrorOf(p); (of != 0) != (2*i+1 > stop) || err != nil {
				t.Errorf("after step %d mirror %d is one of %v: %v", stop, i, of, err)
			}
		}
		slices.Reverse(places) // the one that has decided need not be the first
		mirrors = openMirrors(t, places)
		check(t, MakeEnsemble(mirrors, 99))
		closeMirrors(t, mirrors)
		checkFounded(t, places, 5+1+copies.EpochMargin)
	}
}

// TestMirrorOfAnotherEnsemble refuses copies that can't be members of one ensemble.
func TestMirrorOfAnotherEnsemble(t *testing.T) {
	one, other := newMirrors(t), newMirrors(t)
	for _, places := range [][]data.Place{one, other} {
		mirrors := openMirrors(t, places)
		for _, m := range mirrors {
			check(t, m.Install(t.Context(), treetest.Imported(t)))
			follow(t, m, endOfHistory)
		}
		if places[0] == other[0] {
			check(t, MakeEnsemble(mirrors, 5))
		}
		closeMirrors(t, mirrors)
	}
	for _, tt := range []struct {
		places []data.Place
		want   string
	}{
		{[]data.Place{one[0], one[1], one[1]}, "another zkd uses it"},
		{[]data.Place{one[0], one[1], other[2]}, "founded without"},
	} {
		var mirrors []*Mirror
		var err error
		for _, p := range tt.places {
			var m *Mirror
			if m, err = Open(t.Context(), p, datadirs.OfApache, nil); err != nil {
				break
			}
			mirrors = append(mirrors, m)
		}
		if err == nil {
			err = MakeEnsemble(mirrors, 5)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
		closeMirrors(t, mirrors)
	}
}

// TestFoundingOfAnAcceptedEpoch: a mirror that has accepted an epoch becomes no member by a founding
// that begins in that epoch, or in an earlier one: its leader may still be at work.
func TestFoundingOfAnAcceptedEpoch(t *testing.T) {
	for _, tt := range []struct {
		above int // how far the accepted epoch is above the founding's
		ok    bool
	}{{-1, true}, {0, false}, {1, false}} {
		mirrors := openMirrors(t, newMirrors(t)[:2])
		for _, m := range mirrors {
			check(t, m.Install(t.Context(), treetest.Imported(t)))
			follow(t, m, endOfHistory)
		}
		f, err := mirrors[0].NewFounding([]Founder{mirrors[0].Founder(), mirrors[1].Founder()}, 5)
		check(t, err)
		epoch := uint32(int(f.Zxid.Epoch()) + tt.above)
		check(t, mirrors[1].Accept(epoch))
		if _, err := mirrors[1].ExpectedDigest(f); (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), fmt.Sprint("has accepted epoch ", epoch)) {
			t.Errorf("a founding in epoch %d of a mirror that has accepted %d: %v", f.Zxid.Epoch(), epoch, err)
		}
		if f, err := mirrors[1].NewFounding([]Founder{mirrors[0].Founder(), mirrors[1].Founder()}, 5); err != nil || f.Zxid.Epoch() <= epoch {
			t.Errorf("a mirror that has accepted epoch %d founds in epoch %d: %v", epoch, f.Zxid.Epoch(), err)
		}
		closeMirrors(t, mirrors)
	}
}

// TestMirrorSnapshots takes snapshots while a mirror follows. The log before them goes.
func TestMirrorSnapshots(t *testing.T) {
	p := newMirrors(t)[0]
	m := openMirrors(t, []data.Place{p})[0]
	m.enough = 1000
	check(t, m.Install(t.Context(), treetest.Imported(t)))
	for z := jute.Zxid(0x500000001); z <= endOfHistory; z++ {
		follow(t, m, z)
	}
	want := m.Tree().Digest()
	check(t, m.Close())
	m = openMirrors(t, []data.Place{p})[0]
	if m.Last() != endOfHistory || m.Tree().Digest() != want || len(m.refs) != 1 || m.refs[0].Zxid < 0x500000001 {
		t.Errorf("at %v, with snapshots %v", m.Last(), m.refs)
	}
	check(t, m.Close())
	files, err := os.ReadDir(filepath.Join(p.DataDir, "snap"))
	check(t, err)
	if len(files) != 1 {
		t.Errorf("%d snapshots are left", len(files))
	}
}

// TestSegmentSize has a mirror whose log is to have small segments, as with zkd.walSegmentSizeKb.
func TestSegmentSize(t *testing.T) {
	dir := t.TempDir()
	p := data.Place{DataDir: dir, LogDir: dir, Server: 101, SegmentSize: 64 << 10}
	check(t, data.CreateMirror(p, datadirs.OfApache))
	m := openMirrors(t, []data.Place{p})[0]
	check(t, m.Install(t.Context(), treetest.Imported(t)))
	var out datatree.Applied
	for i := range int32(100) { // 400 KiB
		x := datatree.Txn{Zxid: 0x500000001 + jute.Zxid(i), Time: 1000, Ops: []datatree.Op{{Kind: datatree.OpSetData, Path: "/a", Data: make([]byte, 4<<10), Version: i}}}
		check(t, m.Append(&x, func() ([]datatree.Event, error) {
			m.Tree().Apply(&x, &out)
			return out.Events, nil
		}))
	}
	check(t, m.Close())
	files, err := os.ReadDir(data.LogDir(dir))
	check(t, err)
	if len(files) < 7 {
		t.Errorf("the log has %d segments", len(files))
	}
}

// smallDisk is a mirror whose log is on a small disk, in a bubble of package synctest.
type smallDisk struct {
	*Mirror
	t     *testing.T
	disk  *crashfs.FS
	next  jute.Zxid
	waits atomic.Int64 // how often the log began to wait for room
}

func onSmallDisk(t *testing.T, f func(t *testing.T, m *smallDisk)) {
	synctest.Test(t, func(t *testing.T) {
		m := &smallDisk{Mirror: openMirrors(t, newMirrors(t)[:1])[0], t: t, disk: crashfs.New(1), next: 0x500000001}
		check(t, m.writer.Close())
		m.disk.SetCapacity(2 << 20)
		l, _, err := wal.Open(wal.Options{FS: m.disk, Dir: "log", SegmentSize: 64 << 10, Logger: zaptest.NewLogger(t, zaptest.WrapOptions(zap.Hooks(func(e zapcore.Entry) error {
			if strings.HasPrefix(e.Message, "the log waits") {
				m.waits.Add(1)
			}
			return nil
		})))})
		check(t, err)
		m.lookEach, m.maxQueue = 4<<10, 64<<10
		m.write(l)
		check(t, m.Install(t.Context(), treetest.Imported(t)))
		f(t, m)
	})
}

// set appends the next transaction, of 4 KiB.
func (m *smallDisk) set() error {
	x := datatree.Txn{Zxid: m.next, Time: 1000, Ops: []datatree.Op{{Kind: datatree.OpSetData, Path: "/a", Data: make([]byte, 4<<10), Version: int32(m.next)}}}
	m.next++
	var out datatree.Applied
	return m.Append(&x, func() ([]datatree.Event, error) {
		m.Tree().Apply(&x, &out)
		return out.Events, nil
	})
}

// begin runs f, and returns its error when end is called.
func (m *smallDisk) begin(f func() error) (end func() error) {
	m.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	return func() error {
		m.t.Helper()
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Minute):
			m.Stop()
			m.t.Fatal("it still waits for room")
			return nil
		}
	}
}

func (m *smallDisk) sets(n int) func() error {
	return func() error {
		for range n {
			if err := errors.Join(m.set(), m.Sync()); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestMirrorMakesRoom fills the disk of the log: a snapshot takes the place of the log before the disk is full. When it is full
// nevertheless, Stop ends what waits.
func TestMirrorMakesRoom(t *testing.T) {
	onSmallDisk(t, func(t *testing.T, m *smallDisk) {
		check(t, m.begin(m.sets(420))()) // 1.7 MB
		m.awaitSnapshot()
		if stats := m.writer.Stats(); stats.FileBytes > 1<<20 || len(m.refs) != 1 || m.refs[0].Zxid < 0x500000001 {
			t.Errorf("the log has %d bytes, with snapshots %v", stats.FileBytes, m.refs)
		}
		m.disk.SetCapacity(1)
		end := m.begin(func() error {
			for {
				if err := m.set(); err != nil {
					return err
				}
			}
		})
		synctest.Wait()
		if m.waits.Load() == 0 {
			t.Error("the log does not wait")
		}
		m.Stop()
		t.Logf("the appends end with: %v", end())
		if err := m.Close(); !errors.Is(err, wal.ErrWaits) {
			t.Errorf("close: %v", err)
		}
	})
}

// TestBurstDuringASnapshot: on a disk that is getting full a burst waits for the snapshot that is being written, and continues in the
// room that it makes.
func TestBurstDuringASnapshot(t *testing.T) {
	onSmallDisk(t, func(t *testing.T, m *smallDisk) {
		slow := make(chan struct{})
		m.taken = slow
		end := m.begin(m.sets(2000)) // 8 MB
		synctest.Wait()
		if m.waits.Load() > 0 {
			t.Error("the burst has filled the disk")
		}
		close(slow)
		check(t, end())
		check(t, m.Close())
	})
}

// TestSnapshotKeepsItsRoom: a burst takes none of the room of the snapshot that is being written on the same disk, so one snapshot after the
// other makes room.
func TestSnapshotKeepsItsRoom(t *testing.T) {
	onSmallDisk(t, func(t *testing.T, m *smallDisk) {
		m.disk.SetCapacity(8 << 20)
		var err error
		m.store, err = snapshot.Open("data", snapshot.Options{FS: m.disk, SyncStep: 64 << 10})
		check(t, err)
		m.lookEach = 16 << 10
		for i := range 1000 { // 1 MB
			m.next++
			x := datatree.Txn{Zxid: m.next, Time: 1000, Ops: []datatree.Op{{Kind: datatree.OpCreate, Path: fmt.Sprint("/n", i), Data: make([]byte, 1000), Cversion: int32(20 + i)}}}
			var out datatree.Applied
			check(t, m.Append(&x, func() ([]datatree.Event, error) {
				m.Tree().Apply(&x, &out)
				return out.Events, nil
			}))
		}
		m.next++
		check(t, m.begin(func() error {
			for range 10_000 { // 40 MB
				if err := m.set(); err != nil {
					return err
				}
			}
			return m.Sync()
		})())
		check(t, m.Close())
	})
}

// TestRoomFromElsewhere: a log that waits continues by itself once there is room.
func TestRoomFromElsewhere(t *testing.T) {
	onSmallDisk(t, func(t *testing.T, m *smallDisk) {
		m.disk.SetCapacity(1)
		end := m.begin(m.sets(100))
		synctest.Wait()
		if m.waits.Load() == 0 {
			t.Error("the log does not wait")
		}
		m.disk.SetCapacity(2 << 20)
		check(t, end())
		check(t, m.Close())
	})
}

// TestExpectedDigestDuringASnapshot computes the digest of a member while a snapshot may be being written: it has the state
// before.
func TestExpectedDigestDuringASnapshot(t *testing.T) {
	p := newMirrors(t)[0]
	m := openMirrors(t, []data.Place{p})[0]
	check(t, m.Install(t.Context(), treetest.Imported(t)))
	follow(t, m, 0x500000010)
	want := m.Tree().Digest()
	m.enough = 0
	m.takeSnapshot(0)
	if m.taken == nil {
		t.Fatal("no snapshot is being written")
	}
	f, err := m.NewFounding([]Founder{m.Founder()}, 0)
	check(t, err)
	_, err = m.ExpectedDigest(f)
	check(t, err)
	check(t, m.Close())
	m = openMirrors(t, []data.Place{p})[0]
	if m.Last() != 0x500000010 || m.Tree().Digest() != want || m.refs[len(m.refs)-1].Zxid != m.Last() {
		t.Errorf("at %v, with snapshots %v", m.Last(), m.refs)
	}
	check(t, m.Close())
}
