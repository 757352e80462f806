package stdio

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxLines and maxBytes bound what waits to be written. A longer line is taken only
	// when nothing else waits.
	maxLines = 4096
	maxBytes = 1 << 20
	// Close gives up when the writer has blocked for some looks at it: a second, in which this
	// process has run. On a busy machine that may be longer.
	look  = 100 * time.Millisecond
	looks = 10
)

var (
	errSlow   = errors.New("they were read too slowly")
	errClosed = errors.New("output closed")
)

// Lines writes lines in a goroutine of its own. A line that can't be written, or for which
// there is no room because the reader does not read, is lost and counted. A note with the
// number of lost lines precedes the next line that can be written.
type Lines struct {
	to    io.Writer
	note  func(lost uint64, why error) []byte
	queue chan line
	end   chan struct{} // closed by Close
	once  sync.Once
	done  chan struct{} // closed at the end of the goroutine

	waiting atomic.Int64 // bytes in queue
	lost    atomic.Uint64
	tried   atomic.Uint64 // lines that were written, or could not be

	// Of the goroutine:
	noted uint64 // of lost
	why   error  // the last error
	cut   bool   // the last line is incomplete
}

// line is one write of a caller.
type line struct {
	text    []byte
	written chan<- error // nil if the caller does not wait
}

// NewLines starts writing to w. note returns the line about lost lines; nil means a plain
// text.
func NewLines(w io.Writer, note func(lost uint64, why error) []byte) *Lines {
	if note == nil {
		note = func(lost uint64, why error) []byte { return fmt.Appendf(nil, "lines lost: %d: %v\n", lost, why) }
	}
	l := &Lines{to: w, note: note, queue: make(chan line, maxLines), end: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l
}

// Write takes p, which is one or more whole lines. It does not block, and returns no error.
func (l *Lines) Write(p []byte) (int, error) {
	if n := l.waiting.Add(int64(len(p))); n > maxBytes && n > int64(len(p)) {
		l.drop(p)
		return len(p), nil
	}
	select {
	case l.queue <- line{text: append([]byte(nil), p...)}:
	default:
		l.drop(p)
	}
	return len(p), nil
}

func (l *Lines) drop(p []byte) {
	l.waiting.Add(-int64(len(p)))
	l.lost.Add(1)
}

// Sync waits until the lines of earlier calls of Write are written or lost, or l is closed.
func (l *Lines) Sync() error {
	_, err := l.put(nil)
	return err
}

// Lost returns the number of writes that were lost.
func (l *Lines) Lost() uint64 { return l.lost.Load() }

// Sure returns a writer of lines that must not be lost: it blocks until a line is written, and
// returns the error.
func (l *Lines) Sure() io.Writer { return sure{l} }

type sure struct{ *Lines }

// Write writes p.
func (s sure) Write(p []byte) (int, error) { return s.put(p) }

func (l *Lines) put(p []byte) (int, error) {
	written := make(chan error, 1)
	l.waiting.Add(int64(len(p)))
	select {
	case l.queue <- line{p, written}:
	case <-l.end:
		return 0, errClosed
	}
	select {
	case err := <-written:
		if err != nil {
			return 0, err
		}
		return len(p), nil
	case <-l.done:
		return 0, errClosed
	}
}

// Close writes what waits, but gives up after a second in which no line could be written.
// Later lines are lost.
func (l *Lines) Close() error {
	l.once.Do(func() { close(l.end) })
	tick := time.NewTicker(look)
	defer tick.Stop()
	last := l.tried.Load()
	for blocked := 0; blocked < looks; blocked++ {
		select {
		case <-l.done:
			return nil
		case <-tick.C: // a tick that nobody takes is not made up for
		}
		if tried := l.tried.Load(); tried != last {
			last, blocked = tried, -1
		}
	}
	return errSlow
}

func (l *Lines) run() {
	defer close(l.done)
	for {
		select {
		case next := <-l.queue:
			l.write(next)
		case <-l.end:
			for len(l.queue) > 0 {
				l.write(<-l.queue)
			}
			return
		}
	}
}

func (l *Lines) write(next line) {
	err := l.writeNote()
	if err == nil && len(next.text) > 0 {
		err = l.writeText(next.text)
	}
	if err != nil {
		l.why = err
		if len(next.text) > 0 {
			l.lost.Add(1)
		}
	}
	l.waiting.Add(-int64(len(next.text)))
	l.tried.Add(1)
	if next.written != nil {
		next.written <- err
	}
}

// writeNote writes how many lines were lost since the last note.
func (l *Lines) writeNote() error {
	lost := l.lost.Load()
	if lost == l.noted {
		return nil
	}
	why := l.why
	if why == nil {
		why = errSlow
	}
	if err := l.writeText(l.note(lost-l.noted, why)); err != nil {
		return err
	}
	l.noted, l.why = lost, nil
	return nil
}

// writeText writes whole lines. What is left of an incomplete one gets a line of its own.
func (l *Lines) writeText(p []byte) error {
	if l.cut {
		if _, err := l.to.Write([]byte{'\n'}); err != nil {
			return err
		}
		l.cut = false
	}
	n, err := l.to.Write(p)
	l.cut = err != nil && n > 0 && n < len(p)
	return err
}
