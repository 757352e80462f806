package audit

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
)

// ErrFailed is returned by Wait when the log can't be written.
var ErrFailed = errors.New("the audit log can't be written")

// maxQueue is the number of bytes in the queue from which WaitRoom blocks.
const maxQueue = 16 << 20

// Sink takes the lines of a Log. Only the Log's writer calls it, and Close after that.
type Sink interface {
	// Write takes lines, each with a line break at its end, of entries with these results, and
	// returns how many bytes of the lines it took.
	Write(lines []byte, results []Result) (int, error)
	Close() error
}

// Options configure a Log.
type Options struct {
	Sink Sink
	// JSON makes lines by AppendJSON, not by AppendText.
	JSON bool
	// Bare leaves out the time of a line, because the Sink adds one.
	Bare bool
	// Tail gets each entry, too, and Authors the authors of transactions; nil for none.
	Tail    *Tail
	Authors *Authors
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Shortage is called when the Sink has failed for want of something that may be free later, and reports
	// whether to try again: see vfs.IsShortage. It is called with nil when that is over. Nil means never.
	Shortage func(error) (again bool)
	// Failed is called once, with the error of the Sink.
	Failed func(error)
	// Lost is called with each line that the Sink did not take, without its line break.
	Lost func(line []byte)
}

// Log is the audit log of a server.
type Log struct {
	o    Options
	wake chan struct{} // has a token while there are lines to be written
	quit chan struct{} // closed by Close
	done chan struct{} // closed at the end of the writer

	written atomic.Uint64 // entries, lost ones too
	queued  atomic.Int64  // bytes
	failed  atomic.Bool
	stalls  atomic.Int64

	mu struct {
		sync.Mutex
		queue   queue  // that the writer has not taken yet
		stamp   stamp  // of the last entry
		put     uint64 // entries
		changed chan struct{}
		closed  bool
	}
}

// queue has entries that are not written yet.
type queue struct {
	lines   []byte
	results []Result // of the lines
}

// stamp is a time as lines have it.
type stamp struct {
	ms   int64
	text []byte
}

// set sets the time, unless it is the same to the millisecond.
func (s *stamp) set(t time.Time) {
	if ms := t.UnixMilli(); ms != s.ms || s.text == nil {
		s.ms, s.text = ms, t.AppendFormat(s.text[:0], timeLayout)
	}
}

// Open starts a log.
func Open(o Options) *Log {
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Log{o: o, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	l.mu.changed = make(chan struct{})
	go l.run()
	return l
}

// Put appends an entry, and returns its number, for Wait. It keeps nothing of e. After Close
// it does nothing.
func (l *Log) Put(e *Entry) uint64 { return l.put(e, true) }

// PutLater is Put for one of many entries, after which Wake or Wait has them written.
func (l *Log) PutLater(e *Entry) uint64 { return l.put(e, false) }

func (l *Log) put(e *Entry, wake bool) uint64 {
	if l.o.Authors != nil {
		l.o.Authors.put(e)
	}
	f := formats.Get().(*format)
	l.formatEntry(f, e)
	defer f.release()
	l.mu.Lock()
	defer l.mu.Unlock()
	number := l.putLocked(f, e.Result)
	if wake {
		l.wakeLocked()
	}
	return number
}

// format is an entry as the log and its tail have it, but for the time.
type format struct {
	text   []byte // of AppendText
	object []byte // of AppendJSON
	short  []byte // of AppendJSON, for the tail: empty if nothing is cut
}

var formats = sync.Pool{New: func() any { return new(format) }}

// release keeps the buffers for other entries, unless they are large.
func (f *format) release() {
	if cap(f.text)+cap(f.object)+cap(f.short) <= 64<<10 {
		formats.Put(f)
	}
}

// formatEntry formats an entry. It needs no lock.
func (l *Log) formatEntry(f *format, e *Entry) {
	f.text, f.object, f.short = f.text[:0], f.object[:0], f.short[:0]
	if !l.o.JSON {
		f.text = AppendText(f.text, e)
	}
	tails := l.o.Tail != nil
	if tails {
		if short, isCut := e.short(); isCut {
			f.short = AppendJSON(f.short, &short)
		}
	}
	if l.o.JSON || tails && len(f.short) == 0 {
		f.object = AppendJSON(f.object, e)
	}
}

// Wake has the entries of PutLater written.
func (l *Log) Wake() {
	if l.queued.Load() > 0 {
		l.mu.Lock()
		l.wakeLocked()
		l.mu.Unlock()
	}
}

func (l *Log) wakeLocked() {
	if l.mu.closed {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Log) putLocked(f *format, result Result) uint64 {
	if l.mu.closed {
		return 0
	}
	q := &l.mu.queue
	before := len(q.lines)
	if !l.o.Bare || l.o.Tail != nil {
		l.mu.stamp.set(l.o.Now())
	}
	q.lines, q.results = l.appendLine(q.lines, f, result, l.mu.stamp.text), append(q.results, result)
	if l.o.Tail != nil {
		object := f.object
		if len(f.short) > 0 {
			object = f.short
		}
		l.o.Tail.put(object, l.mu.stamp.text)
	}
	l.queued.Add(int64(len(q.lines) - before))
	l.mu.put++
	return l.mu.put
}

// appendLine appends the line of an entry.
func (l *Log) appendLine(b []byte, f *format, result Result, at []byte) []byte {
	switch {
	case l.o.JSON && l.o.Bare:
		b = append(b, f.object...)
	case l.o.JSON:
		b = appendTimed(b, f.object, at)
	case l.o.Bare:
		b = append(b, f.text...)
	default:
		b = append(b, at...)
		level := "\tINFO\taudit\t"
		if result == Failure {
			level = "\tERROR\taudit\t"
		}
		b = append(b, level...)
		b = append(b, f.text...)
	}
	return append(b, '\n')
}

// Wait blocks until the entry with this number, and all before it, are with the operating
// system, or until stop is closed. It returns ErrFailed if the log can't be written.
func (l *Log) Wait(number uint64, stop <-chan struct{}) error {
	l.await(stop, func() bool { return l.written.Load() >= number })
	if l.failed.Load() {
		return ErrFailed
	}
	return nil
}

// IsFull reports whether WaitRoom would block.
func (l *Log) IsFull() bool { return l.queued.Load() >= maxQueue }

// WaitRoom blocks while the queue is long, until stop is closed.
func (l *Log) WaitRoom(stop <-chan struct{}) {
	if !l.IsFull() {
		return
	}
	l.stalls.Add(1)
	l.await(stop, func() bool { return !l.IsFull() })
}

func (l *Log) await(stop <-chan struct{}, happened func() bool) {
	for !happened() {
		l.mu.Lock()
		changed := l.mu.changed
		l.wakeLocked()
		l.mu.Unlock()
		if happened() {
			return
		}
		select {
		case <-changed:
		case <-stop:
			return
		case <-l.done:
			return
		}
	}
}

// Stats are the counts of a Log.
type Stats struct {
	Entries uint64 // put
	Written uint64 // of these, with the sink
	Queued  int64  // bytes that wait to be written
	Stalls  int64  // times that WaitRoom blocked
	Failed  bool
}

// Stats returns the counts.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{
		Entries: l.mu.put, Written: l.written.Load(), Queued: l.queued.Load(), Stalls: l.stalls.Load(), Failed: l.failed.Load(),
	}
}

// Close writes what is queued, and closes the Sink. It does not wait for what the Sink is short of.
func (l *Log) Close() error {
	l.mu.Lock()
	closed := l.mu.closed
	if !closed {
		l.mu.closed = true
		close(l.wake)
		close(l.quit)
	}
	l.mu.Unlock()
	<-l.done
	if closed {
		return nil
	}
	return l.o.Sink.Close()
}

// run is the writer.
func (l *Log) run() {
	defer close(l.done)
	var spare queue
	for range l.wake {
		spare = l.writeQueue(spare)
	}
	l.writeQueue(queue{}) // what was put before Close took the token away
}

// writeQueue writes the queued entries, and returns their buffers, for the next ones.
func (l *Log) writeQueue(spare queue) queue {
	l.mu.Lock()
	q, last := l.mu.queue, l.mu.put
	l.mu.queue = queue{spare.lines[:0], spare.results[:0]}
	l.mu.Unlock()
	if len(q.lines) > 0 {
		l.write(q)
	}
	l.written.Store(last)
	l.queued.Add(-int64(len(q.lines)))
	l.mu.Lock()
	close(l.mu.changed)
	l.mu.changed = make(chan struct{})
	l.mu.Unlock()
	if cap(q.lines) > maxQueue/16 {
		return queue{}
	}
	return q
}

// write gives entries to the sink. What that does not take is lost.
func (l *Log) write(q queue) {
	lines := q.lines
	if !l.failed.Load() {
		taken, err := l.offer(q)
		if err == nil {
			return
		}
		l.failed.Store(true)
		if l.o.Failed != nil {
			l.o.Failed(err)
		}
		lines = lines[bytes.LastIndexByte(lines[:taken], '\n')+1:]
	}
	for line := range bytes.Lines(lines) {
		if l.o.Lost != nil {
			l.o.Lost(bytes.TrimSuffix(line, []byte{'\n'}))
		}
	}
}

// shortageRetry is the time before the Sink is tried again.
const shortageRetry = time.Second

// offer gives entries to the sink until it has taken all, and waits while it is short of something. It returns how
// many bytes were taken.
func (l *Log) offer(q queue) (taken int, err error) {
	for waits := false; ; waits = true {
		n, err := l.o.Sink.Write(q.lines[taken:], q.results)
		q.results = q.results[bytes.Count(q.lines[taken:taken+n], []byte{'\n'}):]
		taken += n
		if err == nil {
			if waits {
				l.o.Shortage(nil)
			}
			return taken, nil
		}
		if l.o.Shortage == nil || !vfs.IsShortage(err) || !l.o.Shortage(err) {
			return taken, err
		}
		select {
		case <-time.After(shortageRetry):
		case <-l.quit:
			return taken, err
		}
	}
}
