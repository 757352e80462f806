package wal

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
)

// TestCrash runs random histories. Before every operation on the disk it examines what a
// power cut there would leave: none of the unsynced data, and several random mixtures of
// it. Each image must recover to a prefix of the written records that includes all
// acknowledged ones. Recovering it again, also after a crash at any point of the recovery,
// must give the same result.
func TestCrash(t *testing.T) {
	images := 0
	seeds(t, 16, func(t *testing.T, seed uint64) {
		c := &crasher{t: t, rng: rand.New(rand.NewPCG(seed, 7)), nested: 30}
		d := &driver{m: &model{}, rng: rand.New(rand.NewPCG(seed, 8))}
		fsys := crashfs.New(seed)
		for range 3 { // lives
			var l *Log
			l, fsys = c.reopen(d.m, fsys)
			d.begin(l)
			fsys.SetHook(func(op crashfs.Op) error {
				if op.Kind.Mutates() && c.rng.IntN(2) == 0 {
					c.look(d.m, fsys.Crash(c.source()), false)
				}
				return nil
			})
			for range 60 {
				if err := d.step(); err != nil {
					t.Fatal(err)
				}
			}
			fsys.SetHook(nil)
		}
		images += c.images
	})
	t.Logf("%d crash images", images)
}

// crasher checks crash images against a model.
type crasher struct {
	t      *testing.T
	rng    *rand.Rand
	nested int // one of this many images is also crashed within its recovery
	images int
}

// source selects how much of the unsynced data survives.
func (c *crasher) source() *rand.Rand {
	if c.rng.IntN(4) == 0 {
		return nil
	}
	return rand.New(rand.NewPCG(c.rng.Uint64(), 0))
}

// look checks one image. In a killed image not all visible data are durable, so a crash
// within its recovery may lose records that were not acknowledged.
func (c *crasher) look(m *model, image *crashfs.FS, killed bool) int {
	c.t.Helper()
	c.images++
	before := image.Kill()
	_, n, err := m.check(image)
	if err != nil {
		c.t.Fatalf("image %d: %v\nfiles: %v", c.images, err, before.Files())
	}
	// Records that recovery reported are durable from then on.
	sealed := *m
	sealed.acked = n
	if _, again, err := sealed.check(image.Crash(nil)); err != nil || again != n {
		c.t.Fatalf("image %d: second recovery: %d records, then %d, %v", c.images, n, again, err)
	}
	if c.rng.IntN(c.nested) == 0 {
		c.crashWithin(m, before, n, killed)
	}
	return n
}

// crashWithin recovers an image that has n records, and crashes before each operation of
// the recovery.
func (c *crasher) crashWithin(m *model, image *crashfs.FS, n int, killed bool) {
	image.SetHook(func(op crashfs.Op) error {
		if op.Kind.Mutates() {
			c.images++
			_, got, err := m.check(image.Crash(c.source()))
			if err != nil || got > n || got < n && !killed {
				c.t.Fatalf("image %d: crash before %v within recovery: %d records, want %d: %v", c.images, op, got, n, err)
			}
		}
		return nil
	})
	if _, _, err := m.check(image); err != nil {
		c.t.Fatal(err)
	}
}

// reopen ends a life, by a power cut or by a kill, and begins the next one.
func (c *crasher) reopen(m *model, fsys *crashfs.FS) (*Log, *crashfs.FS) {
	c.t.Helper()
	if c.rng.IntN(2) == 0 {
		fsys = fsys.Crash(c.source())
	} else {
		fsys = fsys.Kill()
	}
	l, n, err := m.check(fsys)
	if err != nil {
		c.t.Fatal(err)
	}
	m.records, m.acked = m.records[:n], n
	return l, fsys
}

// TestFaults fails each operation of a life in turn. The log must stop, and acknowledged
// records must survive, first a restart of the process (which sees pages that will never
// reach the disk), then a power cut after that.
func TestFaults(t *testing.T) {
	faults := 0
	seeds(t, 6, func(t *testing.T, seed uint64) {
		for n := 0; ; n++ {
			if done := faultAt(t, seed, n); done {
				faults += n
				return
			}
		}
	})
	t.Logf("%d faults", faults)
}

// faultAt runs a life whose n-th operation fails. It reports whether the life
// ended before that.
func faultAt(t *testing.T, seed uint64, n int) bool {
	c := &crasher{t: t, rng: rand.New(rand.NewPCG(seed, uint64(n))), nested: 10}
	d := &driver{m: &model{}, rng: rand.New(rand.NewPCG(seed, 9))}
	fsys := crashfs.New(seed)
	count, failed := 0, crashfs.Op{}
	fsys.SetHook(func(op crashfs.Op) error {
		if !op.Kind.Mutates() && op.Kind != crashfs.OpClose {
			return nil
		}
		if count++; count-1 == n {
			failed = op
			return crashfs.ErrInjected
		}
		return nil
	})
	var err error
	if d.log, _, err = Open(testOptions(fsys)); err == nil {
		for i := 0; i < 60 && err == nil; i++ {
			err = d.step()
		}
		if err == nil {
			_ = d.log.Close()
		}
	}
	if err != nil {
		if !errors.Is(err, crashfs.ErrInjected) {
			t.Fatalf("operation %d, %v: %v", n, failed, err)
		}
		if d.log != nil {
			checkDead(t, d.log, fsys)
		}
	}
	fsys.SetHook(nil)
	c.look(d.m, fsys.Kill(), true)
	c.look(d.m, fsys.Crash(c.source()), false)
	return failed == crashfs.Op{}
}

// checkDead checks that a failed log touches no file any more.
func checkDead(t *testing.T, l *Log, fsys *crashfs.FS) {
	t.Helper()
	fsys.SetHook(func(op crashfs.Op) error {
		t.Errorf("%v on a failed log", op)
		return nil
	})
	if err := l.Append([]Record{{Kind: Promise}}); err == nil {
		t.Error("append to a failed log worked")
	}
	if _, err := l.Sync(); err == nil {
		t.Error("sync of a failed log worked")
	}
}
