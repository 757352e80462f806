package wal

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// model is what a log should be: every record ever handed to it, in order, how
// many of them were reported durable, and how far it was purged.
type model struct {
	records []Record
	acked   int
	purged  jute.Zxid
}

// view is what some first records of a model amount to.
type view struct {
	history        []Record
	last, hint     jute.Zxid
	promise, ident string
	snaps          []SnapRef
}

// after folds the first n records, the slow and obvious way.
func (m *model) after(n int) view {
	v := view{ident: "ident"}
	for _, r := range m.records[:n] {
		switch r.Kind {
		case Append:
			v.history = append(v.history, r)
			v.last = r.Zxid
		case Promise:
			v.promise = string(r.Payload)
		case Ident:
			v.ident = string(r.Payload)
		case CommitHint:
			v.hint = max(v.hint, r.Zxid)
		case Truncate:
			v.history = slices.DeleteFunc(slices.Clone(v.history), func(e Record) bool { return e.Zxid > r.Zxid })
			v.last, v.hint = r.Zxid, min(v.hint, r.Zxid)
		case Snapshot:
			ref, err := decodeSnapRef(r.Zxid, r.Payload)
			if err != nil {
				panic(err)
			}
			if ref.Installed {
				v.history, v.snaps, v.last, v.hint = nil, nil, r.Zxid, r.Zxid
			}
			v.hint = max(v.hint, r.Zxid)
			v.snaps = append(v.snaps, ref)
		}
	}
	return v
}

// behind returns the entries after a zxid.
func (v *view) behind(z jute.Zxid) []Record {
	i := slices.IndexFunc(v.history, func(r Record) bool { return r.Zxid > z })
	if i < 0 {
		return nil
	}
	return v.history[i:]
}

const testDir = "/log"

func testOptions(fsys *crashfs.FS) Options {
	return Options{FS: fsys, Dir: testDir, SegmentSize: minSegmentSize, Ident: []byte("ident")}
}

// check opens the log on fsys and compares it with the model. It returns the
// log, and how many records it has.
func (m *model) check(fsys *crashfs.FS) (*Log, int, error) {
	l, rec, err := Open(testOptions(fsys))
	if err != nil {
		return nil, 0, err
	}
	n := int(l.NextSeq() - 1)
	if n < m.acked || n > len(m.records) {
		return nil, 0, fmt.Errorf("%d records, want %d to %d", n, m.acked, len(m.records))
	}
	want := m.after(n)
	if rec.LastZxid != want.last || rec.CommitHint != want.hint || string(rec.Promise) != want.promise || string(rec.Ident) != want.ident {
		return nil, 0, fmt.Errorf("recovered %+v, want %+v", rec, want)
	}
	starts := []jute.Zxid{}
	if rec.FirstZxid == 0 {
		starts = append(starts, 0)
	}
	for _, ref := range want.snaps {
		if ref.Zxid < m.purged {
			continue
		}
		found := slices.ContainsFunc(rec.Snaps, func(r SnapRef) bool { return r.Name == ref.Name })
		if !found {
			return nil, 0, fmt.Errorf("snapshot %s at %s is missing from %+v", ref.Name, ref.Zxid, rec.Snaps)
		}
	}
	for _, ref := range rec.Snaps {
		starts = append(starts, ref.Zxid)
	}
	if len(starts) == 0 {
		return nil, 0, fmt.Errorf("nowhere to begin: %+v", rec)
	}
	for _, z := range starts {
		if err := compare(l, z, want.behind(z)); err != nil {
			return nil, 0, fmt.Errorf("replay behind %s: %w", z, err)
		}
	}
	return l, n, nil
}

// compare replays the log behind a zxid.
func compare(l *Log, after jute.Zxid, want []Record) error {
	i := 0
	err := l.Replay(after, func(r Record) error {
		if i == len(want) {
			return fmt.Errorf("entry %s behind the last", r.Zxid)
		}
		if r.Zxid != want[i].Zxid || r.Prev != want[i].Prev || !bytes.Equal(r.Payload, want[i].Payload) {
			return fmt.Errorf("entry %s with %x, want %s with %x", r.Zxid, r.Payload, want[i].Zxid, want[i].Payload)
		}
		i++
		return nil
	})
	if err == nil && i < len(want) {
		err = fmt.Errorf("%d entries, want %d", i, len(want))
	}
	return err
}

// driver does random things to a log and keeps the model in step.
type driver struct {
	m    *model
	rng  *rand.Rand
	log  *Log
	name int // of the next snapshot
}

// step does one thing. An error means that the log failed.
func (d *driver) step() error {
	v := d.m.after(len(d.m.records))
	switch p := d.rng.IntN(100); {
	case p < 55:
		return d.append(d.entries(v.last))
	case p < 75:
		return d.sync()
	case p < 79:
		return d.append([]Record{{Kind: Promise, Payload: d.payload(20)}})
	case p < 83:
		return d.append([]Record{{Kind: CommitHint, Zxid: v.hint + jute.Zxid(d.rng.IntN(int(v.last-v.hint)+1))}})
	case p < 86:
		return d.truncate(&v)
	case p < 91:
		return d.snapshot(&v)
	case p < 92:
		return d.append([]Record{{Kind: Ident, Payload: d.payload(30)}})
	case p < 95:
		return d.purge(&v)
	default:
		_ = d.log.PrepareSpare() // a failure harms nothing
		return nil
	}
}

func (d *driver) payload(n int) []byte {
	b := make([]byte, d.rng.IntN(n+1))
	for i := range b {
		b[i] = byte(d.rng.Uint32())
	}
	return b
}

func (d *driver) entries(last jute.Zxid) []Record {
	batch := make([]Record, 1+d.rng.IntN(4))
	for i := range batch {
		size := 200
		if d.rng.IntN(15) == 0 {
			size = 5000
		}
		if d.rng.IntN(200) == 0 {
			size = 40000 // more than a segment
		}
		next := last + 1 + jute.Zxid(d.rng.IntN(3))
		batch[i] = Record{Kind: Append, Zxid: next, Prev: last, Payload: d.payload(size)}
		last = next
	}
	return batch
}

func (d *driver) append(batch []Record) error {
	d.m.records = append(d.m.records, batch...)
	return d.log.Append(batch)
}

func (d *driver) sync() error {
	seq, err := d.log.Sync()
	if err == nil {
		if seq != uint64(len(d.m.records)) {
			return fmt.Errorf("synced up to %d of %d", seq, len(d.m.records))
		}
		d.m.acked = int(seq)
	}
	return err
}

func (d *driver) truncate(v *view) error {
	var base jute.Zxid
	if n := len(v.snaps); n > 0 {
		base = v.snaps[n-1].Zxid
	}
	for _, r := range slices.Backward(v.history) {
		if r.Zxid < base || d.rng.IntN(5) == 0 {
			break
		}
		if d.rng.IntN(5) == 0 {
			return d.append([]Record{{Kind: Truncate, Zxid: r.Zxid}})
		}
	}
	return nil
}

func (d *driver) snapshot(v *view) error {
	d.name++
	ref := SnapRef{Name: fmt.Sprint("snap", d.name), Size: int64(d.name), CRC: d.rng.Uint32(), Digest: d.payload(16)}
	if d.rng.IntN(6) == 0 {
		ref.Installed, ref.Zxid = true, v.last+jute.Zxid(d.rng.IntN(5))-2
		if n := len(v.snaps); n > 0 {
			ref.Zxid = max(ref.Zxid, v.snaps[n-1].Zxid)
		}
		ref.Zxid = max(ref.Zxid, 0)
	} else {
		if len(v.history) == 0 {
			return nil
		}
		ref.Zxid = v.history[d.rng.IntN(len(v.history))].Zxid
		if n := len(v.snaps); n > 0 && ref.Zxid < v.snaps[n-1].Zxid {
			return nil
		}
	}
	return d.append([]Record{ref.Record()})
}

func (d *driver) purge(v *view) error {
	if len(v.snaps) == 0 {
		return nil
	}
	if err := d.sync(); err != nil {
		return err
	}
	z := v.snaps[d.rng.IntN(len(v.snaps))].Zxid
	if z < d.m.purged {
		return nil
	}
	d.m.purged = z
	if _, err := d.log.Purge(z); err != nil && !errors.Is(err, crashfs.ErrInjected) {
		return fmt.Errorf("purge before %s: %w", z, err)
	}
	return nil
}

var moreSeeds = flag.Int("seeds", 0, "number of seeds of the random tests, if not 0")

// seeds runs f for some seeds, the same ones each time. To replay one, use
// go test -run 'TestCrash/seed=17$', with -seeds if it is a high one.
func seeds(t *testing.T, n int, f func(t *testing.T, seed uint64)) {
	if *moreSeeds > 0 {
		n = *moreSeeds
	} else if testing.Short() {
		n = max(1, n/10)
	}
	for seed := range uint64(n) {
		if t.Failed() {
			return
		}
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { f(t, seed) })
	}
}
