package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// walDisk is a real log on a simulated file system, written in addition to the model. Each
// record of the model is one of the log's.
type walDisk struct {
	fs      *crashfs.FS
	log     *wal.Log
	line    wal.Line
	segment int64        // bytes
	queue   []wal.Record // not in the log yet, since it waits
	ahead   []aheadOf
	passed  []func() // what follows on records that went ahead
	offset  uint64   // number of a record in the log, minus that in the model
	base    uint64   // offset when the log was opened
	told    uint64   // records of the model that are told to be durable
	waits   bool     // no segment can be begun
	syncs   int
	broken  bool // the next fsync fails
}

// aheadOf is a record that makes room, and what follows on it. Neither is lost but with the process.
type aheadOf struct {
	rec     wal.Record
	durable func() // at once
	then    func() // later
}

// newReal gives a node a new file system with a log of the durable records.
func (s *Sim) newReal(n *node) {
	w := &walDisk{fs: crashfs.New(s.rng.Uint64()), segment: 32 << 10}
	if s.cfg.Capacity > 0 {
		w.segment = smallSegment
	}
	n.disk.real = w
	if err := w.open(); err != nil {
		s.fail("D3", "server %d: new log: %v", n.id, err)
	}
	h := &n.disk.durable
	var recs []logRecord
	snaps := h.snaps
	if h.start > 0 {
		recs = append(recs, logRecord{kind: recInstall, snap: snaps[0]})
		snaps = snaps[1:]
	}
	for _, e := range h.ents {
		recs = append(recs, logRecord{kind: recAppend, ent: e})
		for _, o := range snaps {
			if o.zxid == e.Zxid {
				recs = append(recs, logRecord{kind: recSnap, snap: o})
			}
		}
	}
	recs = append(recs, logRecord{kind: recPromise, promise: h.promise})
	for i := range recs {
		w.queue = append(w.queue, walRecord(&recs[i]))
	}
	if !w.commit() {
		s.fail("D3", "server %d: write the new log", n.id)
	}
	w.offset = w.log.NextSeq() - 1 - n.disk.count
	w.end(false, nil)
}

func (w *walDisk) open() error {
	log, _, err := wal.Open(w.options())
	if err == nil {
		w.begin(log)
	}
	return err
}

// begin is called with a log that was opened.
func (w *walDisk) begin(log *wal.Log) {
	w.log, w.base = log, w.offset
	w.line = wal.Line{Log: log, Ahead: w.nextAhead, Passed: w.passAhead, Durable: func(d wal.Durable) { w.told = d.Seq - w.base }}
	w.line.Begin()
}

func (w *walDisk) nextAhead() (wal.Record, bool) {
	if len(w.ahead) == 0 {
		return wal.Record{}, false
	}
	return w.ahead[0].rec, true
}

func (w *walDisk) passAhead() {
	w.offset++
	w.ahead[0].durable()
	w.passed = append(w.passed, w.ahead[0].then)
	w.ahead = w.ahead[1:]
}

func (w *walDisk) options() wal.Options {
	return wal.Options{FS: w.fs, Dir: "/log", SegmentSize: w.segment}
}

// append writes what is queued, as far as there is room. It reports whether the log works.
func (w *walDisk) append() bool {
	rest, err := w.line.Append(w.queue)
	return w.wrote(rest, err)
}

// commit does so, and makes it durable.
func (w *walDisk) commit() bool {
	if w.broken {
		w.broken = false
		w.fs.SetHook(func(op crashfs.Op) error {
			if op.Kind == crashfs.OpSync {
				return crashfs.ErrInjected
			}
			return nil
		})
	}
	w.syncs++
	if w.syncs%4 == 0 {
		_ = w.log.PrepareSpare() // without a spare the log continues
	}
	rest, err := w.line.Commit(w.queue)
	return w.wrote(rest, err)
}

func (w *walDisk) wrote(rest []wal.Record, err error) bool {
	w.queue = append(w.queue[:0], rest...)
	w.waits = errors.Is(err, wal.ErrWaits)
	return err == nil || w.waits
}

// walRecord returns a record of the model as one of the log.
func walRecord(r *logRecord) wal.Record {
	switch r.kind {
	case recPromise:
		return wal.Record{Kind: wal.Promise, Payload: encodePromise(r.promise)}
	case recTruncate:
		return wal.Record{Kind: wal.Truncate, Zxid: r.upto}
	case recHint:
		return wal.Record{Kind: wal.CommitHint, Zxid: r.upto}
	case recNotes:
		return wal.Record{Kind: wal.Notes, Payload: r.notes.Append(nil)}
	case recIncarnation:
		return wal.Record{Kind: wal.Ident, Payload: r.incarnation[:]}
	case recInstall, recSnap:
		return snapRef(r.snap, r.kind == recInstall).Record()
	case recForget:
		return wal.Record{Kind: wal.Forget, Zxid: r.upto}
	}
	e := &r.ent
	return wal.Record{Kind: wal.Append, Type: uint8(e.Type), Zxid: e.Zxid, Prev: e.Prev, Payload: e.Data}
}

func snapRef(snap *snapshot, installed bool) wal.SnapRef {
	return wal.SnapRef{Zxid: snap.zxid, Name: fmt.Sprintf("%x", int64(snap.zxid)), Size: snap.bytes, Installed: installed,
		Digest: binary.BigEndian.AppendUint64(nil, snap.digest.Lo)}
}

func encodePromise(p zab.Promise) []byte {
	return append(binary.BigEndian.AppendUint32(nil, p.Epoch), byte(p.To))
}

// end ends the process and, with power, the machine.
func (w *walDisk) end(power bool, r *rand.Rand) {
	if power {
		w.fs = w.fs.Crash(r)
	} else {
		w.fs = w.fs.Kill()
	}
	w.log, w.queue, w.ahead, w.passed, w.waits = nil, nil, nil, nil, false
}

// purge drops everything before the snapshot at z.
func (w *walDisk) purge(z jute.Zxid) {
	if _, err := w.log.Purge(context.Background(), z); err != nil {
		panic(fmt.Sprintf("purge to %v: %v", z, err))
	}
}

// recoverReal opens the log again. It must find the durable records and a prefix of the
// records written after them.
func (s *Sim) recoverReal(n *node) {
	d := &n.disk
	w := d.real
	log, found, err := s.openReal(n)
	if err != nil {
		s.fail("D3", "server %d: open the log: %v", n.id, err)
	}
	w.begin(log)
	survived := log.NextSeq() - 1 - w.offset
	if survived < d.durableCount() || survived > d.count {
		s.fail("D3", "server %d: of %d records, %d were durable, and %d are recovered", n.id, d.count, d.durableCount(), survived)
	}
	s.stats.TornRecords += int(d.count - survived)
	for d.durableCount() < survived {
		s.makeDurable(n, d.durableCount()+1)
	}
	d.cut()
	h := &d.written
	last, _ := h.last()
	if found.LastZxid != last || string(found.Promise) != string(encodePromise(h.promise)) && h.promise.Epoch > 0 || found.FirstZxid > h.start {
		s.fail("D3", "server %d: recovered %+v, the model has %v, %v, (%v, ...]", n.id, found, last, h.promise, h.start)
	}
	i := 0
	err = log.Replay(h.start, func(r wal.Record) error {
		if i >= len(h.ents) || r.Zxid != h.ents[i].Zxid || r.Type != uint8(h.ents[i].Type) || string(r.Payload) != string(h.ents[i].Data) {
			return fmt.Errorf("entry %v is another one", r.Zxid)
		}
		i++
		return nil
	})
	if err != nil || i != len(h.ents) {
		s.fail("D3", "server %d: replay of %d entries ends with %d: %v", n.id, len(h.ents), i, err)
	}
}
