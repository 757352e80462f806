package history

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

const (
	batchEntries = 256
	batchBytes   = 256 << 10
	batches      = 4 // decoded ahead of the reader
)

// batch are entries on their way from the goroutine that reads them.
type batch struct {
	entries []decoded
	data    []byte // of the entries
}

// decoded is an entry, and its transaction if it is a client's.
type decoded struct {
	zab.Entry
	txn datatree.Txn
	err error // of decoding
}

// add adds a copy of an entry.
func (b *batch) add(e *zab.Entry) {
	n := len(b.entries)
	if n < cap(b.entries) {
		b.entries = b.entries[:n+1] // whose txn.Ops are used again
	} else {
		b.entries = append(b.entries, decoded{})
	}
	d := &b.entries[n]
	at := len(b.data)
	b.data = append(b.data, e.Data...)
	d.Entry, d.err = *e, nil
	d.Data = b.data[at:len(b.data):len(b.data)]
	if data := d.Txn(); data != nil {
		d.err = decodeTxn(&d.Entry, data, &d.txn)
	}
}

func (b *batch) full() bool { return len(b.entries) >= batchEntries || len(b.data) >= batchBytes }

func (b *batch) reset() {
	b.entries, b.data = b.entries[:0], b.data[:0]
	if cap(b.data) > 4*batchBytes {
		b.data = nil
	}
}

var errStopped = errors.New("an entry could not be applied")

// Replay applies the entries that read passes to its argument, which copies them. read is called
// in another goroutine, which also decodes, so that the next entries are ready when one has been
// applied; it ends before Replay returns. The error is that of the first entry that can't be
// applied, or else the one that read returns. Replay also returns how many entries it has applied.
func (s *State) Replay(read func(add func(*zab.Entry) error) error) (applied int64, err error) {
	var stopped atomic.Bool
	var readErr error // set before the end of ahead
	ahead, spare := make(chan *batch, batches), make(chan *batch, batches+2)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(ahead)
		b := new(batch)
		readErr = read(func(e *zab.Entry) error {
			if stopped.Load() {
				return errStopped
			}
			if b.add(e); b.full() {
				ahead <- b
				select {
				case b = <-spare:
				default:
					b = new(batch)
				}
			}
			return nil
		})
		ahead <- b
	})
	for b := range ahead {
		if err == nil {
			var n int
			n, err = s.applyAll(b)
			applied += int64(n)
			stopped.Store(err != nil)
		}
		b.reset()
		spare <- b // has room for all that exist
	}
	reader.Wait()
	if err == nil {
		err = readErr
	}
	return applied, err
}

// applyAll applies the entries of a batch, and returns how many could be.
func (s *State) applyAll(b *batch) (n int, err error) {
	for n = range b.entries {
		d := &b.entries[n]
		switch {
		case d.err != nil:
			err = d.err
		case d.Txn() != nil:
			err = s.apply(&d.Entry, &d.txn)
		default:
			err = s.Apply(&d.Entry)
		}
		if err != nil {
			return n, err
		}
	}
	return len(b.entries), nil
}
