package wal

import (
	"errors"
	"time"
)

// Line is the order in which records get to a log, and what is told of them: those that make room go ahead of all
// others. It has no goroutine, and does not wait: its owner does, a [Writer] or a simulation of one.
type Line struct {
	Log *Log
	// Ahead returns the first record that makes room and has not passed, and Passed tells that it is durable.
	Ahead  func() (r Record, ok bool)
	Passed func()
	// Durable is told how far the log is. Records that went ahead have no numbers, and are not counted.
	Durable func(Durable)

	told   uint64 // number of the last durable record, as told
	passed uint64 // how many went ahead
}

// Begin sets the number of the last durable record to that of the log.
func (o *Line) Begin() { o.told = o.Log.NextSeq() - 1 }

// next is the number that the next record has in the log if all before it are told.
func (o *Line) next() uint64 { return o.told + o.passed + 1 }

// Commit appends a batch and makes it durable. After ErrWaits rest is to be committed again, before anything else.
func (o *Line) Commit(batch []Record) (rest []Record, err error) {
	if rest, err = o.Append(batch); err != nil {
		return rest, err
	}
	return nil, o.Sync()
}

// Append appends a batch, after what makes room. With ErrWaits it has told how much of the batch is durable: only
// what is known to be durable is applied, and only what is applied can be in a snapshot that makes room. rest is
// what is to be appended again. Meanwhile what makes room has a part of the present segment.
func (o *Line) Append(batch []Record) (rest []Record, err error) {
	if err := o.passAhead(len(batch) > 0 && o.Log.lacks.Load() != nil); err != nil || len(batch) == 0 {
		return batch, err
	}
	first := o.Log.NextSeq()
	err = o.Log.Append(batch)
	waits := errors.Is(err, ErrWaits)
	waits = waits && !shortageUntold.Planted()
	if waits {
		o.tell(o.Log.durable, false, 0)
	}
	return batch[o.Log.NextSeq()-first:], err
}

// Sync makes durable what is appended.
func (o *Line) Sync() error {
	begin := time.Now()
	seq, err := o.Log.Sync()
	if err != nil {
		return err
	}
	o.tell(seq, !o.Log.o.NoSync, time.Since(begin))
	return nil
}

// tell tells that the log is durable up to a record of it, by an fsync or by an earlier one.
func (o *Line) tell(seq uint64, synced bool, took time.Duration) {
	seq -= o.passed
	n := int(seq - o.told)
	if n == 0 {
		return
	}
	o.told = seq
	o.Durable(Durable{Seq: seq, Zxid: o.Log.LastZxid(), Records: n, Synced: synced, Took: took})
}

// passAhead makes what makes room durable. While the log waits for the segment of another record, only the present
// segment is used.
func (o *Line) passAhead(waiting bool) error {
	for r, ok := o.Ahead(); ok; r, ok = o.Ahead() {
		if forgetWaits.Planted() && waiting && r.Kind == Forget {
			return nil
		}
		if fits, err := o.Log.addAhead(r, waiting); err != nil || !fits {
			return err
		}
		o.passed++
		o.Passed()
	}
	return nil
}
