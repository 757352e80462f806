package sim

import (
	"context"
	"encoding/binary"
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
	fs     *crashfs.FS
	log    *wal.Log
	offset uint64 // number of a record in the log, minus that in the model
	syncs  int
	broken bool // the next fsync fails
}

const segmentSize = 32 << 10

// newReal gives a node a new file system with a log of the durable records.
func (s *Sim) newReal(n *node) {
	w := &walDisk{fs: crashfs.New(s.rng.Uint64())}
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
		if !w.write(&recs[i]) {
			s.fail("D3", "server %d: write the new log", n.id)
		}
	}
	if !w.sync() {
		s.fail("D3", "server %d: sync the new log", n.id)
	}
	w.offset = w.log.NextSeq() - 1 - n.disk.count
	w.end(false, nil)
}

func (w *walDisk) open() error {
	log, _, err := wal.Open(w.options())
	w.log = log
	return err
}

func (w *walDisk) options() wal.Options {
	return wal.Options{FS: w.fs, Dir: "/log", SegmentSize: segmentSize}
}

func (w *walDisk) write(r *logRecord) bool {
	var out wal.Record
	switch r.kind {
	case recAppend:
		e := &r.ent
		out = wal.Record{Kind: wal.Append, Type: uint8(e.Type), Zxid: e.Zxid, Prev: e.Prev, Payload: e.Data}
	case recPromise:
		out = wal.Record{Kind: wal.Promise, Payload: encodePromise(r.promise)}
	case recTruncate:
		out = wal.Record{Kind: wal.Truncate, Zxid: r.upto}
	case recHint:
		out = wal.Record{Kind: wal.CommitHint, Zxid: r.upto}
	case recNotes:
		out = wal.Record{Kind: wal.Notes, Payload: r.notes.Append(nil)}
	case recIncarnation:
		out = wal.Record{Kind: wal.Ident, Payload: r.incarnation[:]}
	case recInstall, recSnap:
		out = snapRef(r.snap, r.kind == recInstall).Record()
	}
	return w.log.Append([]wal.Record{out}) == nil
}

func snapRef(snap *snapshot, installed bool) wal.SnapRef {
	return wal.SnapRef{Zxid: snap.zxid, Name: fmt.Sprintf("%x", int64(snap.zxid)), Size: snap.bytes, Installed: installed,
		Digest: binary.BigEndian.AppendUint64(nil, snap.digest.Lo)}
}

func encodePromise(p zab.Promise) []byte {
	return append(binary.BigEndian.AppendUint32(nil, p.Epoch), byte(p.To))
}

// sync makes everything durable, and reports whether it succeeded.
func (w *walDisk) sync() bool {
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
	_, err := w.log.Sync()
	return err == nil
}

// end ends the process and, with power, the machine.
func (w *walDisk) end(power bool, r *rand.Rand) {
	if power {
		w.fs = w.fs.Crash(r)
	} else {
		w.fs = w.fs.Kill()
	}
	w.log = nil
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
	log, found, err := wal.Open(w.options())
	if err != nil {
		s.fail("D3", "server %d: open the log: %v", n.id, err)
	}
	w.log = log
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
