package wal

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
)

// model is the expected log: every record ever handed to it, in order, how many of them
// were reported durable, and how far it was purged.
type model struct {
	records []Record
	acked   int
	purged  jute.Zxid
}

// view is the result of the first records of a model.
type view struct {
	history        []Record
	last, hint     jute.Zxid
	promise, ident string
	notes          string
	snaps          []SnapRef
}

// after folds the first n records in the slow and obvious way.
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
		case Forget:
			v.snaps = slices.DeleteFunc(slices.Clone(v.snaps), func(s SnapRef) bool { return s.Zxid < r.Zxid })
		case Notes:
			v.notes = string(r.Payload)
		case CommitHint:
			v.hint = max(v.hint, r.Zxid)
		case Truncate:
			v.history = slices.DeleteFunc(slices.Clone(v.history), func(e Record) bool { return e.Zxid > r.Zxid })
			v.last = r.Zxid
		case Snapshot:
			ref, err := decodeSnapRef(r.Zxid, r.Payload)
			if err != nil {
				panic(err)
			}
			if ref.Installed {
				v.history, v.snaps, v.last = nil, nil, r.Zxid
			} else if r.Zxid < v.base() {
				continue
			}
			v.hint = max(v.hint, r.Zxid)
			v.snaps = append(v.snaps, ref)
		}
	}
	return v
}

// control returns the entries with a type.
func (v *view) control() (list []Record) {
	for _, r := range v.history {
		if r.Type != 0 {
			list = append(list, r)
		}
	}
	return list
}

// base returns the zxid of the newest snapshot.
func (v *view) base() jute.Zxid {
	if n := len(v.snaps); n > 0 {
		return v.snaps[n-1].Zxid
	}
	return 0
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

// check opens the log on fsys and compares it with the model. It returns the log and the
// number of its records.
func (m *model) check(fsys *crashfs.FS) (*Log, int, error) {
	l, rec, err := Open(testOptions(fsys))
	if err != nil {
		return nil, 0, err
	}
	n, err := m.compare(l, rec)
	return l, n, err
}

// compare compares the recovered log with the model, and returns the number of records.
func (m *model) compare(l *Log, rec *Recovered) (int, error) {
	n := int(l.NextSeq() - 1)
	if n < m.acked || n > len(m.records) {
		return 0, fmt.Errorf("%d records, want %d to %d", n, m.acked, len(m.records))
	}
	want := m.after(n)
	if rec.LastZxid != want.last || rec.CommitHint != want.hint || string(rec.Promise) != want.promise || string(rec.Ident) != want.ident || string(rec.Notes) != want.notes {
		return 0, fmt.Errorf("recovered %+v, want %+v", rec, want)
	}
	if err := checkControl(rec, want.control()); err != nil {
		return 0, err
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
			return 0, fmt.Errorf("snapshot %s at %s is missing from %+v", ref.Name, ref.Zxid, rec.Snaps)
		}
	}
	for _, ref := range rec.Snaps {
		if !slices.ContainsFunc(want.snaps, func(s SnapRef) bool { return s.Name == ref.Name && s.Zxid == ref.Zxid }) {
			return 0, fmt.Errorf("snapshot %s at %s is one that was forgotten or replaced", ref.Name, ref.Zxid)
		}
		starts = append(starts, ref.Zxid)
	}
	if len(starts) == 0 {
		return 0, fmt.Errorf("nowhere to begin: %+v", rec)
	}
	for _, z := range starts {
		if err := compare(l, z, want.behind(z)); err != nil {
			return 0, fmt.Errorf("replay after %s: %w", z, err)
		}
	}
	return n, nil
}

// checkControl checks the entries with a type: all those in the log, and none outside of
// the history.
func checkControl(rec *Recovered, want []Record) error {
	extra := len(want) - len(rec.Control)
	if extra < 0 || extra > 0 && want[extra-1].Zxid > rec.FirstZxid {
		return fmt.Errorf("%d entries with a type, want %d (the log begins behind %s)", len(rec.Control), len(want), rec.FirstZxid)
	}
	for i, r := range rec.Control {
		if err := same(&r, &want[extra+i]); err != nil {
			return fmt.Errorf("entry with a type: %w", err)
		}
	}
	return nil
}

func same(got, want *Record) error {
	if got.Zxid != want.Zxid || got.Prev != want.Prev || got.Type != want.Type || !bytes.Equal(got.Payload, want.Payload) {
		return fmt.Errorf("entry %s of type %d with %x, want %s of type %d with %x",
			got.Zxid, got.Type, got.Payload, want.Zxid, want.Type, want.Payload)
	}
	return nil
}

// compare replays the log after a zxid.
func compare(l *Log, after jute.Zxid, want []Record) error {
	i := 0
	err := l.Replay(after, func(r Record) error {
		if i == len(want) {
			return fmt.Errorf("entry %s behind the last", r.Zxid)
		}
		if err := same(&r, &want[i]); err != nil {
			return err
		}
		i++
		return nil
	})
	if err == nil && i < len(want) {
		err = fmt.Errorf("%d entries, want %d", i, len(want))
	}
	var bytes int64
	for _, r := range want {
		bytes += int64(frameSize(len(r.Payload)))
	}
	if n, ok := l.BytesAfter(after); err == nil && (!ok || n < bytes) {
		err = fmt.Errorf("%d bytes estimated, %v, but there are %d", n, ok, bytes)
	}
	return err
}

// driver does random operations on a log and updates the model.
type driver struct {
	m       *model
	rng     *rand.Rand
	log     *Log
	name    int // of the next snapshot
	readers []*follower
}

// begin continues with another log.
func (d *driver) begin(l *Log) { d.log, d.readers = l, nil }

// step does one operation. An error means that the log failed.
func (d *driver) step() error {
	v := d.m.after(len(d.m.records))
	switch p := d.rng.IntN(100); {
	case p < 60:
		var batch []Record
		for range 1 + d.rng.IntN(3) {
			m := model{records: append(slices.Clip(d.m.records), batch...)}
			v := m.after(len(m.records))
			batch = append(batch, d.records(&v)...)
		}
		return d.append(batch)
	case p < 78:
		return d.sync()
	case p < 90:
		return d.follow(&v)
	case p < 93:
		return d.purge(&v)
	case p < 96:
		return d.replay(&v)
	default:
		_ = d.log.PrepareSpare() // a failure harms nothing
		return nil
	}
}

// records returns some records that may follow the history.
func (d *driver) records(v *view) []Record {
	switch p := d.rng.IntN(100); {
	case p < 75:
		return d.entries(v.last)
	case p < 79:
		return []Record{{Kind: Promise, Payload: d.payload(20)}}
	case p < 85:
		return []Record{{Kind: CommitHint, Zxid: v.hint + jute.Zxid(d.rng.IntN(int(v.last-v.hint)+1)/2)}}
	case p < 91:
		return d.truncate(v)
	case p < 95:
		return d.snapshot(v)
	case p < 97:
		if len(v.snaps) == 0 {
			return []Record{{Kind: Forget}}
		}
		return []Record{{Kind: Forget, Zxid: v.snaps[d.rng.IntN(len(v.snaps))].Zxid}}
	case p < 99:
		return []Record{{Kind: Notes, Payload: d.payload(200)}}
	default:
		return []Record{{Kind: Ident, Payload: d.payload(30)}}
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
		if d.rng.IntN(5) == 0 {
			batch[i].Type = uint8(d.rng.Uint32())
		}
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

func (d *driver) truncate(v *view) []Record {
	i := len(v.history) - 1
	for i > 0 && d.rng.IntN(4) > 0 {
		i--
	}
	if i < 0 || v.history[i].Zxid < max(v.base(), v.hint) {
		return nil
	}
	return []Record{{Kind: Truncate, Zxid: v.history[i].Zxid}}
}

func (d *driver) snapshot(v *view) []Record {
	d.name++
	ref := SnapRef{Name: fmt.Sprint("snap", d.name), Size: int64(d.name), CRC: d.rng.Uint32(), Digest: d.payload(16)}
	if d.rng.IntN(6) == 0 {
		ref.Installed, ref.Zxid = true, max(v.last+jute.Zxid(d.rng.IntN(5))-2, v.hint)
	} else {
		if len(v.history) == 0 {
			return nil
		}
		ref.Zxid = v.history[d.rng.IntN(len(v.history))].Zxid
	}
	return []Record{ref.Record()}
}

// replay reads the log from a random zxid while it is being written.
func (d *driver) replay(v *view) error {
	z := d.start(v)
	if err := compare(d.log, z, v.behind(z)); err != nil {
		return fmt.Errorf("replay after %s: %w", z, err)
	}
	return nil
}

// start picks a zxid of the history that the log reaches back to.
func (d *driver) start(v *view) jute.Zxid {
	from := d.m.purged
	if len(v.snaps) > 0 {
		from = max(from, v.snaps[0].Zxid)
	}
	entries := v.behind(from)
	if len(entries) == 0 {
		return v.last
	}
	return entries[d.rng.IntN(len(entries))].Zxid
}

// follower is a Reader with its position.
type follower struct {
	*Reader
	at    jute.Zxid
	jumps int // truncations and installed snapshots in the model
}

func (m *model) jumps() (n int) {
	for _, r := range m.records {
		if ref, err := decodeSnapRef(r.Zxid, r.Payload); r.Kind == Truncate || r.Kind == Snapshot && err == nil && ref.Installed {
			n++
		}
	}
	return n
}

// follow lets one of a few readers, or a new one, read further.
func (d *driver) follow(v *view) error {
	i := d.rng.IntN(4)
	if i >= len(d.readers) {
		z := d.start(v)
		r, err := d.log.NewReader(z)
		if err != nil {
			return fmt.Errorf("new reader behind %s: %w", z, err)
		}
		i = len(d.readers)
		d.readers = append(d.readers, &follower{r, z, d.m.jumps()})
	}
	f := d.readers[i]
	got, err := f.Next(1 + d.rng.IntN(5000))
	rewritten := errors.Is(err, ErrRewritten)
	if rewritten != (f.jumps != d.m.jumps()) {
		return fmt.Errorf("reader behind %s: %w after %d changes of the history, made after %d", f.at, err, d.m.jumps(), f.jumps)
	}
	if rewritten || errors.Is(err, ErrPurged) && f.at < d.m.purged {
		d.readers = slices.Delete(d.readers, i, i+1)
		_ = f.Close() // it was only read
		return nil
	}
	want := v.behind(f.at)
	if err != nil || len(got) > len(want) || len(got) == 0 && len(want) > 0 {
		return fmt.Errorf("reader behind %s: %d entries of %d: %w", f.at, len(got), len(want), err)
	}
	for i := range got {
		if err := same(&got[i], &want[i]); err != nil {
			return fmt.Errorf("reader behind %s: %w", f.at, err)
		}
		f.at = got[i].Zxid
	}
	return nil
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
	if _, err := d.log.Purge(context.Background(), z); err != nil && !errors.Is(err, crashfs.ErrInjected) {
		return fmt.Errorf("purge before %s: %w", z, err)
	}
	return nil
}

var moreSeeds = flag.Int("seeds", 0, "number of seeds of the random tests, if not 0")

// seeds runs f for some seeds, the same ones each time. To replay one, use go test -run
// 'TestCrash/seed=17$', with -seeds for a high one.
func seeds(t *testing.T, n int, f func(t *testing.T, seed uint64)) {
	if *moreSeeds > 0 {
		n = *moreSeeds
	} else if testing.Short() {
		n = max(1, n/4)
	}
	for seed := range uint64(n) {
		if t.Failed() {
			return
		}
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { f(t, seed) })
	}
}
