package wal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// Durable reports how far the log is on stable storage.
type Durable struct {
	Seq  uint64    // of the last durable record
	Zxid jute.Zxid // of the last entry; all entries are durable
	// Records is the number of records that have become durable.
	Records int
	// Synced reports whether that took an fsync, and Took is its time. With
	// Options.NoSync there is none.
	Synced bool
	Took   time.Duration
}

// WriterOptions are the callbacks and settings of a Writer.
type WriterOptions struct {
	// Durable is called from the writer's goroutine after each fsync. It should
	// be quick: the next batch waits for it. It must not call the Writer's
	// Close or SubmitWait.
	Durable func(Durable)
	// Fatal is called once, from the writer's goroutine, with the first failed write or fsync. A
	// segment that can't be begun for want of room, inodes or descriptors is no failure: the
	// writer waits, and tries again.
	// The writer touches no file afterwards, and no further record will become durable. The
	// process should end.
	Fatal func(error)
	// Commit returns a zxid known to be committed, for the hints written when idle. Nil means
	// that durable entries are committed: a quorum of one. It is called from the writer's
	// goroutine.
	Commit func() jute.Zxid
	// Idle is how long after a write the writer appends a commit hint if no other record comes;
	// default 100 ms. The hint proves to a later recovery that the records before it had been
	// durable.
	Idle time.Duration
	// MaxQueue bounds the payloads waiting for the disk, in bytes; default 64 MiB. Submit blocks
	// while there are more.
	MaxQueue int64
}

// spareRetry is how long to wait after a spare segment could not be made.
const spareRetry = 5 * time.Second

// shortageRetry is how long the log waits before it tries again to begin a segment.
const shortageRetry = time.Second

// Writer writes a log from one goroutine in a loop: it takes everything queued, writes it,
// syncs once and reports. Under load this forms batches, and at most one fsync is in
// flight. Another goroutine keeps the spare segment ready. A Writer is safe for concurrent
// use.
type Writer struct {
	log  *Log
	o    WriterOptions
	line Line // of the writer's goroutine

	work  chan struct{} // has one element if there may be work
	quit  chan struct{} // closed by Close
	spare chan struct{} // has one element if a segment was begun
	room  chan struct{} // has one element if a log that waits should look again at once
	done  chan struct{} // closed when the writer's goroutine has ended
	wg    sync.WaitGroup

	mu struct {
		sync.Mutex
		changed *sync.Cond // room in the queue, durable, or err
		queue   []Record
		ahead   []Record // to be written before the queue
		passed  uint64   // how many records submitted ahead are durable
		bytes   int64    // of payloads in queue and in the batch being written
		next    uint64   // number of the next record submitted
		durable uint64
		closed  bool
		err     error // why the writer has failed
	}
}

// NewWriter starts writing l, which the writer owns from then on.
func NewWriter(l *Log, o WriterOptions) *Writer {
	if o.Idle == 0 {
		o.Idle = 100 * time.Millisecond
	}
	if o.MaxQueue == 0 {
		o.MaxQueue = 64 << 20
	}
	if o.Commit == nil {
		o.Commit = l.LastZxid
	}
	w := &Writer{log: l, o: o, work: make(chan struct{}, 1), quit: make(chan struct{}), spare: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{})}
	w.mu.changed = sync.NewCond(&w.mu)
	w.mu.next, w.mu.durable = l.NextSeq(), l.NextSeq()-1
	w.line = Line{Log: l, Ahead: w.nextAhead, Passed: w.passAhead, Durable: w.durable}
	w.line.Begin()
	w.spare <- struct{}{}
	w.wg.Go(w.write)
	w.wg.Go(w.prepareSpare)
	return w
}

// Submit queues records and returns the number of the last one. The record is durable when
// Durable has been called with that number or a higher one. Submit copies batch, but not
// the payloads. It blocks while the queue is full, and returns ErrClosed after Close, or
// the failure of the log.
func (w *Writer) Submit(batch ...Record) (uint64, error) {
	var size int64
	for i := range batch {
		size += int64(len(batch[i].Payload)) + recordHeader
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.mu.bytes > 0 && w.mu.bytes+size > w.o.MaxQueue && w.mu.err == nil && !w.mu.closed {
		w.mu.changed.Wait()
	}
	if w.mu.err != nil {
		return 0, w.mu.err
	}
	if w.mu.closed {
		return 0, ErrClosed
	}
	w.mu.queue = append(w.mu.queue, batch...)
	w.mu.bytes += size
	w.mu.next += uint64(len(batch))
	notify(w.work)
	return w.mu.next - 1, nil
}

// SubmitWait is like Submit, but returns only when the records are durable.
func (w *Writer) SubmitWait(batch ...Record) error {
	seq, err := w.Submit(batch...)
	if err != nil {
		return err
	}
	return w.waitFor(seq)
}

func (w *Writer) waitFor(seq uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.mu.durable < seq && w.mu.err == nil {
		w.mu.changed.Wait()
	}
	if w.mu.durable >= seq {
		return nil
	}
	return w.mu.err
}

// SubmitAhead makes a record durable that makes room: a reference to a snapshot of the history that is durable here, or
// a Forget record. It depends on nothing that is queued, and goes before all that, also while the log waits for
// a segment: otherwise a log that has filled its disk could never be purged. It has no number.
func (w *Writer) SubmitAhead(r Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed && w.mu.err == nil {
		return ErrClosed
	}
	w.mu.ahead = append(w.mu.ahead, r)
	notify(w.work)
	notify(w.room)
	n := w.mu.passed + uint64(len(w.mu.ahead))
	for w.mu.passed < n && w.mu.err == nil {
		w.mu.changed.Wait()
	}
	if w.mu.passed >= n {
		return nil
	}
	return w.mu.err
}

// nextAhead returns the first record that was submitted ahead and is not durable yet.
func (w *Writer) nextAhead() (r Record, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.mu.ahead) == 0 {
		return r, false
	}
	return w.mu.ahead[0], true
}

// passAhead tells that the record of nextAhead is durable.
func (w *Writer) passAhead() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.ahead = slices.Delete(w.mu.ahead, 0, 1)
	w.mu.passed++
	w.mu.changed.Broadcast()
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Stop ends waiting for room: what waits then fails, and so does each Submit. All that fits is still
// written. It does not wait, and may be called from any goroutine. Close follows.
func (w *Writer) Stop() {
	w.mu.Lock()
	if !w.mu.closed {
		w.mu.closed = true
		close(w.quit)
	}
	w.mu.changed.Broadcast()
	w.mu.Unlock()
	notify(w.work)
}

// Close writes and syncs all queued records and closes the log. It returns the failure of
// the log if there is one.
func (w *Writer) Close() error {
	w.Stop()
	w.log.spare.stop()
	w.wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.log.Close(); w.mu.err == nil {
		return err
	}
	return w.mu.err
}

// write is the writer's goroutine.
func (w *Writer) write() {
	defer close(w.done)
	idle := time.NewTimer(0)
	idle.Stop()
	var batch []Record
	for hintDue := false; ; {
		if _, ahead := w.nextAhead(); ahead && !w.commit(nil) {
			return
		}
		batch = w.take(batch)
		switch {
		case len(batch) > 0:
			hintDue = slices.ContainsFunc(batch, func(r Record) bool { return r.Kind != CommitHint })
			if !w.commit(batch) {
				return
			}
			if hintDue {
				idle.Reset(w.o.Idle)
			}
			continue
		case w.stopping():
			if hintDue {
				w.appendHint()
			}
			return
		}
		select {
		case <-w.work:
		case <-idle.C:
			if hintDue {
				hintDue = false
				if !w.appendHint() {
					return
				}
			}
		}
	}
}

// take exchanges the queue for the emptied last batch.
func (w *Writer) take(last []Record) []Record {
	clear(last) // release the payloads
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := w.mu.queue
	w.mu.queue = last[:0]
	return batch
}

func (w *Writer) stopping() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.closed && len(w.mu.queue) == 0 && len(w.mu.ahead) == 0
}

// commit makes the batch durable, and what was submitted ahead. It reports whether the log still works.
func (w *Writer) commit(batch []Record) bool {
	if next, want := w.log.NextSeq(), w.line.next(); next != want { // only this goroutine writes them
		w.fail(fmt.Errorf("the log's next record has number %d, its writer's %d: something else has written to the log", next, want))
		return false
	}
	segment := w.log.seg
	if err := w.persist(batch); err != nil {
		w.fail(err)
		return false
	}
	w.mu.Lock()
	for i := range batch {
		w.mu.bytes -= int64(len(batch[i].Payload)) + recordHeader
	}
	w.mu.changed.Broadcast()
	w.mu.Unlock()
	if w.log.seg != segment {
		notify(w.spare)
	}
	return true
}

// persist commits the batch, and waits for room as often as the log does. Meanwhile nothing of the rest becomes
// durable, and so nothing of it is acknowledged.
func (w *Writer) persist(batch []Record) error {
	rest, err := w.line.Commit(batch)
	if !errors.Is(err, ErrWaits) {
		return err
	}
	w.log.o.Logger.Error("the log waits: no segment can be begun; trying again", zap.Error(err), zap.Duration("in", shortageRetry))
	began, tries := time.Now(), 0
	for ; errors.Is(err, ErrWaits) && w.awaitRoom(); tries++ {
		rest, err = w.line.Commit(rest)
	}
	if err == nil {
		w.log.o.Logger.Info("the log continues: it has room for its segment", zap.Duration("after", time.Since(began)), zap.Int("tries", tries))
	}
	return err
}

// awaitRoom waits before the log tries again to begin a segment. It returns false if the writer is to end.
func (w *Writer) awaitRoom() bool {
	select {
	case <-time.After(shortageRetry):
		return true
	case <-w.room:
		return true
	case <-w.quit:
		return false
	}
}

// durable tells that the log is durable up to a record.
func (w *Writer) durable(d Durable) {
	if w.o.Durable != nil {
		w.o.Durable(d)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.durable = d.Seq
	w.mu.changed.Broadcast()
}

// fail stops the writer with err.
func (w *Writer) fail(err error) {
	w.log.spare.stop()
	w.mu.Lock()
	w.mu.err = err
	w.mu.queue = nil
	w.mu.changed.Broadcast()
	w.mu.Unlock()
	w.log.o.Logger.Error("the log cannot be written any more", zap.Error(err))
	if w.o.Fatal != nil {
		w.o.Fatal(err)
	}
}

// appendHint appends a commit hint, unless something was submitted meanwhile: that is an equal
// proof, and another hint will follow it.
func (w *Writer) appendHint() bool {
	w.mu.Lock()
	if len(w.mu.queue) > 0 {
		w.mu.Unlock()
		return true
	}
	w.mu.next++
	w.mu.bytes += recordHeader
	w.mu.Unlock()
	zxid := w.o.Commit()
	if zxid > w.log.LastZxid() {
		// The committed entries have not all arrived here, and the local entries need not be
		// among them: there is nothing new to hint.
		zxid = w.log.st.hint
	}
	return w.commit([]Record{{Kind: CommitHint, Zxid: zxid}})
}

// prepareSpare keeps a spare segment ready.
func (w *Writer) prepareSpare() {
	retry := time.NewTimer(0)
	retry.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-w.spare:
		case <-retry.C:
		}
		if err := w.log.PrepareSpare(); err != nil && !errors.Is(err, ErrClosed) {
			w.log.o.Logger.Warn("could not prepare the next segment of the log", zap.Error(err))
			retry.Reset(spareRetry)
		}
	}
}

// Purge is Log.Purge.
func (w *Writer) Purge(ctx context.Context, oldest jute.Zxid) (int, error) {
	defer notify(w.room)
	return w.log.Purge(ctx, oldest)
}

// Replay is Log.Replay.
func (w *Writer) Replay(after jute.Zxid, fn func(Record) error) error {
	return w.log.Replay(after, fn)
}

// NewReader is Log.NewReader.
func (w *Writer) NewReader(after jute.Zxid) (*Reader, error) { return w.log.NewReader(after) }

// BytesAfter is Log.BytesBehind.
func (w *Writer) BytesAfter(after jute.Zxid) (int64, bool) { return w.log.BytesAfter(after) }

// Stats is Log.Stats.
func (w *Writer) Stats() Stats { return w.log.Stats() }

// Space is Log.Space.
func (w *Writer) Space(snapshotBytes int64) (vfs.Space, SpaceLevel, error) {
	return w.log.Space(snapshotBytes)
}

// Keep is Log.Keep.
func (w *Writer) Keep(bytes int64) { w.log.Keep(bytes) }
