package server

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/snapshot"
)

// copied returns servers with a copy of a world's data, in one volume for each.
func (w *world) copied(t *testing.T, n int) *volumeEnsemble {
	e := newVolumeEnsemble(t, t.TempDir(), n, true)
	for id := 1; id <= n; id++ {
		check(t, os.CopyFS(e.dataDir(id), os.DirFS(filepath.Join(w.dir, fmt.Sprint(id), "data"))))
	}
	return e
}

// snaps returns the snapshots of a server, oldest first.
func (e *volumeEnsemble) snaps(t *testing.T, id int) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(e.dataDir(id), "snap", "*.db"))
	check(t, err)
	return names
}

// holds requires that every running server has all acknowledged data.
func (e *volumeEnsemble) holds(t *testing.T, acked map[string]string) {
	t.Helper()
	e.settled()
	for id, s := range e.servers {
		if s == nil {
			continue
		}
		c := s.connect(t)
		for path, want := range acked {
			if got, _ := c.get(path); got != want {
				t.Errorf("server %d: %s is %.20q, and %.20q was acknowledged", id, path, got, want)
			}
		}
	}
}

// TestMissingSnapshotsOnAllMembers checks a start without the snapshots followed by one
// with them. They used to delete all data of an ensemble: the first set the logs aside,
// the second removed the snapshots.
func TestMissingSnapshotsOnAllMembers(t *testing.T) {
	w := newWorld(t, 3, true)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := w.copied(t, 3)
		away := func(id int) string { return filepath.Join(dir, fmt.Sprint(id)) }
		for id := 1; id <= 3; id++ {
			check(t, os.Rename(filepath.Join(e.dataDir(id), "snap"), away(id)))
			err := e.boot(id, 30)
			if fault.KindOf(err) != fault.Missing || !strings.Contains(fmt.Sprint(err), "--set-data-aside=") {
				t.Errorf("server %d without snapshots: %v; want a refusal that names the way out", id, err)
			}
		}
		time.Sleep(10 * time.Second)
		e.stopAll()
		for id := 1; id <= 3; id++ {
			check(t, os.RemoveAll(filepath.Join(e.dataDir(id), "snap")))
			check(t, os.Rename(away(id), filepath.Join(e.dataDir(id), "snap")))
			check(t, e.boot(id, 30))
		}
		e.holds(t, w.acked)
	})
}

// ruin makes a snapshot's file unusable in one way.
type ruin struct {
	name string
	kind fault.Kind
	do   func(t *testing.T, file, another string)
}

var ruins = []ruin{
	{"damaged", fault.Damaged, func(t *testing.T, file, _ string) { damage(t, file) }},
	{"cut", fault.Damaged, func(t *testing.T, file, _ string) { check(t, os.Truncate(file, 5000)) }},
	{"missing", fault.Missing, func(t *testing.T, file, _ string) { check(t, os.Remove(file)) }},
	{"unreadable", fault.Unreadable, func(t *testing.T, file, _ string) {
		check(t, os.Remove(file))
		check(t, os.Mkdir(file, 0o700))
	}},
	{"foreign", fault.Foreign, func(t *testing.T, file, another string) {
		b, err := os.ReadFile(another)
		check(t, err)
		check(t, os.WriteFile(file, b, 0o600))
	}},
	{"newer", fault.Newer, func(t *testing.T, file, _ string) { makeNewer(t, filepath.Dir(filepath.Dir(file))) }},
}

// TestUnusableSnapshot checks that if the newest snapshot can't be used, an older one is
// used, and the file is left alone. A file of a later version stops the start even then.
func TestUnusableSnapshot(t *testing.T) {
	w := newWorld(t, 1, true)
	for _, r := range ruins {
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := w.copied(t, 1)
				snaps := e.snaps(t, 1)
				newest := snaps[len(snaps)-1]
				hideLog(t, e, r.kind)
				r.do(t, newest, foreignSnapshot(t, w))
				showLog(t, e, r.kind)
				before := inventory(t, e.volumes(1))
				err := e.boot(1, 1<<30)
				if r.kind == fault.Newer {
					if fault.KindOf(err) != r.kind || !strings.Contains(err.Error(), "snapshot format 99 was written by a later version of zkd; this version reads 1 to 2") {
						t.Fatalf("start: %v, want a refusal with both versions", err)
					}
					if after := inventory(t, e.volumes(1)); !maps.Equal(after, before) {
						t.Errorf("files %v, then %v", before, after)
					}
					return
				}
				check(t, err)
				e.holds(t, w.acked)
				if !strings.Contains(fmt.Sprint(e.servers[1].logged.All()), r.kind.String()) {
					t.Errorf("the log does not say that it is %v: %v", r.kind, e.servers[1].logged.All())
				}
				e.stopAll()
				if after := inventory(t, e.volumes(1)); after[newest] != before[newest] {
					t.Error("the file changed")
				}
			})
		})
	}
}

// hideLog and showLog hide the log from makeNewer, which must only change the snapshot.
func hideLog(t *testing.T, e *volumeEnsemble, kind fault.Kind) {
	if kind == fault.Newer {
		check(t, os.Rename(filepath.Join(e.dataDir(1), "journal"), filepath.Join(e.dataDir(1), "hidden")))
	}
}

func showLog(t *testing.T, e *volumeEnsemble, kind fault.Kind) {
	if kind == fault.Newer {
		check(t, os.Rename(filepath.Join(e.dataDir(1), "hidden"), filepath.Join(e.dataDir(1), "journal")))
	}
}

// foreignSnapshot returns a snapshot of the other single server of a world.
func foreignSnapshot(t *testing.T, w *world) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(w.dir, "2/data/snap/*.db"))
	check(t, err)
	return names[0]
}

// TestOlderSnapshotOfALaterVersion checks that a directory that a later version has
// worked with is not used, even if this version can read the newest snapshot.
func TestOlderSnapshotOfALaterVersion(t *testing.T) {
	w := newWorld(t, 1, true)
	synctest.Test(t, func(t *testing.T) {
		e := w.copied(t, 1)
		snaps := e.snaps(t, 1)
		hideLog(t, e, fault.Newer)
		newest := snaps[len(snaps)-1]
		check(t, os.Rename(newest, newest+".away"))
		makeNewer(t, e.dataDir(1))
		check(t, os.Rename(newest+".away", newest))
		showLog(t, e, fault.Newer)
		if err := e.boot(1, 1<<30); fault.KindOf(err) != fault.Newer {
			t.Errorf("start: %v, want a refusal", err)
		}
	})
}

// TestPurgedSnapshotsAreForgotten checks that the log remembers dropped references even
// if their records are still in it. Otherwise the files would be missing at the next
// start.
func TestPurgedSnapshotsAreForgotten(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := startOn(t, fastFS{}, dir, "snapCount=4", "autopurge.purgeInterval=1", "autopurge.snapRetainCount=3")
		c := s.connect(t)
		c.create("/a", "")
		for s.metrics.Snapshot.Count() < 6 {
			for range 20 {
				c.set("/a", strings.Repeat("x", 500))
			}
			time.Sleep(time.Second) // a snapshot is written
			c.ping()
		}
		s = s.restart(t)
		s.snapshots.mu.Lock()
		defer s.snapshots.mu.Unlock()
		if n := len(s.snapshots.mu.refs); n != 3 {
			t.Errorf("the log refers to %d snapshots, want 3", n)
		}
		for _, ref := range s.snapshots.mu.refs {
			if _, err := os.Stat(s.snapshots.store.Path(ref.Name)); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestNoUsableSnapshot checks that if no snapshot can be used and the log does not reach
// back, a single server stops, and so does a member unless the bytes of all of them are
// proven to be damaged: then it gets everything from the others. No file is lost.
func TestNoUsableSnapshot(t *testing.T) {
	single, members := newWorld(t, 1, true), newWorld(t, 3, true)
	for _, r := range ruins {
		if r.kind == fault.Newer {
			continue // see TestUnusableSnapshot
		}
		for _, w := range []*world{single, members} {
			n := 1
			if w == members {
				n = 3
			}
			t.Run(fmt.Sprintf("%s of %d", r.name, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := w.copied(t, n)
					for _, file := range e.snaps(t, 1) {
						r.do(t, file, foreignSnapshot(t, single))
					}
					before := inventory(t, e.volumes(1))
					for id := n; id > 1; id-- {
						check(t, e.boot(id, 1<<30))
					}
					err := e.boot(1, 1<<30)
					repaired := n > 1 && r.kind == fault.Damaged
					if !repaired && fault.KindOf(err) != r.kind || repaired && err != nil {
						t.Fatalf("start: %v; want it repaired: %t", err, repaired)
					}
					if repaired {
						e.holds(t, w.acked)
					}
					e.stopAll()
					after := inventory(t, e.volumes(1))
					for name := range before {
						if filepath.Base(name) != datadirs.OwnerFile && lost(name, before, after, false) {
							t.Errorf("lost %s", name)
						}
					}
				})
			})
		}
	}
}

// TestMixedReasonsSetNothingAside has one damaged snapshot, while the others are only
// missing. They may return, so a member does not give up its log.
func TestMixedReasonsSetNothingAside(t *testing.T) {
	w := newWorld(t, 3, true)
	synctest.Test(t, func(t *testing.T) {
		e := w.copied(t, 3)
		snaps := e.snaps(t, 1)
		damage(t, snaps[0])
		for _, file := range snaps[1:] {
			check(t, os.Rename(file, file+".away"))
		}
		if err := e.boot(1, 1<<30); err == nil {
			t.Fatal("the server started")
		}
		for _, file := range snaps[1:] {
			check(t, os.Rename(file+".away", file))
		}
		for id := 1; id <= 3; id++ {
			check(t, e.boot(id, 1<<30))
		}
		e.holds(t, w.acked)
	})
}

// TestUnreferencedSnapshots checks that of the snapshots that the log does not refer to,
// a start removes those that this log took and its history covers. The others are moved
// away, and taken back when a log refers to them.
func TestUnreferencedSnapshots(t *testing.T) {
	w := newWorld(t, 1, true)
	synctest.Test(t, func(t *testing.T) {
		e := w.copied(t, 1)
		snaps := e.snaps(t, 1)
		newest, dir := snaps[len(snaps)-1], filepath.Join(e.dataDir(1), "snap")
		copyTo := func(from, name string) {
			b, err := os.ReadFile(from)
			check(t, err)
			check(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
		}
		copyTo(newest, snapshot.FileName(1, 7))                // superseded, as its content shows
		copyTo(foreignSnapshot(t, w), snapshot.FileName(2, 7)) // another server's
		check(t, os.WriteFile(filepath.Join(dir, snapshot.FileName(3, 7)), []byte("x"), 0o600))
		check(t, e.boot(1, 1<<30))
		e.holds(t, w.acked)
		e.stopAll()
		if now := e.snaps(t, 1); !slices.Equal(now, snaps) {
			t.Errorf("snapshots %v, want %v", now, snaps)
		}
		aside, err := os.ReadDir(filepath.Join(e.dataDir(1), "unreferenced"))
		check(t, err)
		if len(aside) != 2 || aside[0].Name() != snapshot.FileName(2, 7) || aside[1].Name() != snapshot.FileName(3, 7) {
			t.Errorf("moved away: %v", aside)
		}
		// A log that was replaced meanwhile returns, and finds its snapshots.
		for _, file := range snaps {
			check(t, os.Rename(file, filepath.Join(e.dataDir(1), "unreferenced", filepath.Base(file))))
		}
		check(t, e.boot(1, 1<<30))
		e.holds(t, w.acked)
		if now := e.snaps(t, 1); !slices.Contains(now, newest) {
			t.Errorf("%s was not taken back: %v", newest, now)
		}
	})
}

// TestOldLogLosesNoSnapshots checks that with an old copy of the log, newer snapshots are
// not covered by its history, although they are this log's. They are moved, and used when
// the right log is back.
func TestOldLogLosesNoSnapshots(t *testing.T) {
	w := newWorld(t, 1, true)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := w.copied(t, 1)
		journal := filepath.Join(e.dataDir(1), "journal")
		check(t, os.CopyFS(filepath.Join(dir, "old"), os.DirFS(journal)))
		check(t, os.CopyFS(filepath.Join(dir, "oldsnaps"), os.DirFS(filepath.Join(e.dataDir(1), "snap"))))
		check(t, e.boot(1, 10))
		c := e.servers[1].connect(t)
		for i := 0; e.servers[1].metrics.Snapshot.Count() == 0; i++ {
			c.create(fmt.Sprintf("/late%d", i), strings.Repeat("z", 2000))
			time.Sleep(100 * time.Millisecond)
		}
		c.create("/last", "")
		e.stopAll()
		check(t, os.Rename(journal, filepath.Join(dir, "right")))
		check(t, os.Rename(filepath.Join(dir, "old"), journal))
		check(t, os.CopyFS(filepath.Join(e.dataDir(1), "snap.old"), os.DirFS(filepath.Join(dir, "oldsnaps"))))
		for _, file := range mustGlob(t, filepath.Join(e.dataDir(1), "snap.old", "*.db")) {
			to := filepath.Join(e.dataDir(1), "snap", filepath.Base(file))
			if _, err := os.Stat(to); err != nil {
				check(t, os.Rename(file, to)) // purged meanwhile
			}
		}
		before := inventory(t, e.volumes(1))
		check(t, e.boot(1, 1<<30))
		e.holds(t, w.acked)
		e.stopAll()
		after := inventory(t, e.volumes(1))
		for name := range before {
			if strings.HasSuffix(name, ".db") && lost(name, before, after, false) {
				t.Errorf("lost %s", name)
			}
		}
		check(t, os.RemoveAll(journal))
		check(t, os.Rename(filepath.Join(dir, "right"), journal))
		check(t, e.boot(1, 1<<30))
		if !e.servers[1].connect(t).exists("/last") {
			t.Error("a write is lost")
		}
	})
}

func mustGlob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	check(t, err)
	return names
}

// TestMissingSegmentStopsAMember checks that a missing segment does not count as damage.
func TestMissingSegmentStopsAMember(t *testing.T) {
	w := newWorld(t, 3, true)
	synctest.Test(t, func(t *testing.T) {
		e := w.copied(t, 3)
		for id := 1; id <= 3; id++ {
			check(t, e.boot(id, 1<<30))
		}
		c, acked := e.servers[e.leader()].connect(t), maps.Clone(w.acked)
		for i := range 200 {
			acked["/base0"] = fmt.Sprint(i, strings.Repeat("z", 2000))
			c.set("/base0", acked["/base0"])
		}
		e.settled()
		e.stopAll()
		segments := mustGlob(t, filepath.Join(e.dataDir(1), "journal", "*.wal"))
		gone := segments[len(segments)-2]
		check(t, os.Rename(gone, gone+".away"))
		err := e.boot(1, 1<<30)
		if fault.KindOf(err) != fault.Missing || !strings.Contains(fmt.Sprint(err), filepath.Base(gone)+" is missing") {
			t.Fatalf("start: %v, want %s to be missing", err, gone)
		}
		check(t, os.Rename(gone+".away", gone))
		for id := 1; id <= 3; id++ {
			check(t, e.boot(id, 1<<30))
		}
		e.holds(t, acked)
	})
}

// TestSetDataAside checks that the operator's flag moves a member's data away, and only
// the data that it names, once.
func TestSetDataAside(t *testing.T) {
	w := newWorld(t, 3, true)
	synctest.Test(t, func(t *testing.T) {
		e := w.copied(t, 3)
		ordered := func(id int, order string) error {
			_, err := e.tryStart(id, func(o *Options) {
				o.FS, o.SetDataAside = fastFS{}, order
				o.Config.DataDir, o.Config.DataLogDir, o.Config.SnapCount = e.dataDir(id), e.logDir(id), 1<<30
			})
			return err
		}
		for id := 2; id <= 3; id++ {
			check(t, e.boot(id, 1<<30))
		}
		err := ordered(1, "01234567")
		name := regexp.MustCompile(`the data here is ([0-9a-f]{8})`).FindStringSubmatch(fmt.Sprint(err))
		if name == nil {
			t.Fatalf("an order that names other data: %v", err)
		}
		before := inventory(t, e.volumes(1))
		for range 2 { // the flag may be kept, and has no effect the second time
			check(t, ordered(1, name[1]))
			e.holds(t, w.acked)
			time.Sleep(3 * time.Second) // it is admitted
			e.stop(1)
		}
		after := inventory(t, e.volumes(1))
		for file := range before {
			if lost(file, before, after, false) && filepath.Base(file) != datadirs.OwnerFile {
				t.Errorf("lost %s", file)
			}
		}
		if n := len(mustGlob(t, filepath.Join(e.dataDir(1), "journal", "*.damaged"))); n != len(mustGlob(t, filepath.Join(w.dir, "1/data/journal/*.wal"))) {
			t.Errorf("%d segments were set aside", n)
		}
	})
	alone := newWorld(t, 1, true)
	synctest.Test(t, func(t *testing.T) {
		e := alone.copied(t, 1)
		_, err := e.tryStart(1, func(o *Options) {
			o.Config.DataDir, o.Config.DataLogDir, o.SetDataAside = e.dataDir(1), e.dataDir(1), "01234567"
		})
		if err == nil || !strings.Contains(err.Error(), "a single server has nothing else") {
			t.Errorf("a single server: %v, want a refusal", err)
		}
	})
}

// TestDamagedIdentityFile relies on the log, which has the content of the file too.
func TestDamagedIdentityFile(t *testing.T) {
	w := newWorld(t, 1, true)
	synctest.Test(t, func(t *testing.T) {
		e := w.copied(t, 1)
		name := filepath.Join(e.dataDir(1), datadirs.OwnerFile)
		right, err := os.ReadFile(name)
		check(t, err)
		damage(t, name)
		check(t, e.boot(1, 1<<30))
		e.holds(t, w.acked)
		if b, err := os.ReadFile(name); err != nil || string(b) != string(right) {
			t.Errorf("the file is %q, %v; want %q", b, err, right)
		}
	})
}
