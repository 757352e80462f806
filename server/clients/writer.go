package clients

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/internal/mux"
	"github.com/zkd-project/zkd/internal/sockets"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/monitor"
)

// outFlush is how many bytes the reader lets wait before it answers more requests.
const outFlush = 64 << 10

// writer writes the buffer of a connection's line to its socket. One goroutine at a time does that: the connection's
// reader, a flusher, or one that was started for a client that does not read.
type writer struct {
	shared *writers
	line   *guardedLine
	socket *socket
	limits *limiter

	writing bool  // a goroutine is writing; guarded by line
	taken   int64 // bytes that were taken to be written; guarded by line
	dirty   bool  // there is output of the applier's batch; owned by the applier
	waits   bool  // for a flusher; guarded by flushers.mu
}

// writers is what the writers of a server share.
type writers struct {
	metrics *monitor.Metrics
	audit   *atomic.Pointer[auditor]
	unread  *unread
	running *sync.WaitGroup // of the connections' goroutines
}

// release releases a buffer that was written, or will not be. It may be nil.
func (w *writer) release(o *line.Buffer) {
	if o == nil {
		return
	}
	if o.Counted > 0 {
		w.shared.unread.add(&w.line.Line, -int64(o.Counted))
	}
	o.Release()
}

// countLocked updates what is unread, and ends the connections that have too much of it. A short
// buffer, as most are, does not count.
func (w *writer) countLocked() {
	if out := w.line.Outbox.Unsent(); out.Len() > outFlush {
		more := out.Len() - out.Counted
		out.Counted = out.Len()
		w.shared.unread.add(&w.line.Line, int64(more))
	}
}

// flush writes the buffer to the socket. If another goroutine is writing, that
// goroutine also writes the added bytes. flush blocks while the client does not read,
// which pauses the reader of a slow client.
func (w *writer) flush() {
	if out := w.take(); out != nil {
		w.writeAll(out)
	}
}

// flushNow writes the buffer without waiting. It returns false if only flush can do that. If the
// network does not take all of it, another goroutine writes the rest.
func (w *writer) flushNow(direct *sockets.Direct) bool {
	tcp, _ := w.socket.stream.(*net.TCPConn)
	carried, _ := w.socket.stream.(*mux.Stream)
	if carried == nil && (tcp == nil || direct == nil) {
		return false
	}
	for out := w.take(); out != nil; {
		if len(out.Full()) > 0 || out.Audited != 0 {
			w.shared.running.Go(func() { w.writeAll(out) })
			return true
		}
		n, err := 0, error(nil)
		if carried != nil {
			n, err = carried.WriteNow(out.Last())
		} else {
			n, err = direct.Write(tcp, out.Last())
		}
		w.shared.metrics.BytesSent.Add(int64(n))
		w.limits.sent(n)
		if n < len(out.Last()) && err == nil {
			out.Written(n)
			w.shared.running.Go(func() { w.writeAll(out) })
			return true
		}
		w.release(out)
		out = w.next(err)
	}
	return true
}

// take returns the buffer, and makes the caller the one that writes the socket: next must
// follow when it is written. It returns nil if there is nothing to write, or another goroutine writes.
func (w *writer) take() *line.Buffer {
	w.line.Lock()
	defer w.line.Unlock()
	if w.writing {
		return nil
	}
	return w.takeLocked()
}

// next returns what was put into the buffer while the last one was written, or nil: then the
// caller no longer writes the socket. err is the outcome of that write.
func (w *writer) next(err error) *line.Buffer {
	w.line.Lock()
	defer w.line.Unlock()
	if err != nil {
		w.line.Outbox.Break()
		w.socket.nc.Close()
		w.line.Host().Ending() // wakes the reader, which tears the connection down
	}
	out := w.takeLocked()
	w.line.changed.Broadcast()
	return out
}

func (w *writer) takeLocked() *line.Buffer {
	var out *line.Buffer
	if !w.line.Outbox.Gone() {
		out = w.line.Outbox.Take()
	}
	if w.writing = out != nil; w.writing {
		out.Audited = w.line.audited
		w.taken += int64(out.Len())
		w.line.changed.Broadcast()                      // for a reader that waits for room
		if last, least, most := out.Sizes(); most > 0 { // in one step, because all connections share the counter
			w.shared.metrics.ResponseSizes.ObserveAll(int64(last), int64(least), int64(most))
		}
	}
	return out
}

// writeAll writes what take has returned, and what is added meanwhile.
func (w *writer) writeAll(out *line.Buffer) {
	w.socket.hurryAgain()
	for out != nil {
		err := w.shared.audit.Load().wait(out.Audited, w.socket.done)
		if err == nil {
			err = w.write(out)
		}
		w.release(out)
		out = w.next(err)
	}
}

// write writes the chunks to the socket, and releases each chunk once it is written.
func (w *writer) write(out *line.Buffer) error {
	full := out.Full()
	for i, b := range full {
		if _, err := w.socket.stream.Write(b); err != nil {
			return err
		}
		w.shared.metrics.BytesSent.Add(int64(len(b)))
		full[i] = nil
	}
	w.limits.sent(out.Len())
	n, err := w.socket.stream.Write(out.Last())
	w.shared.metrics.BytesSent.Add(int64(n))
	return err
}

// makeRoom waits until the buffer is short again, and writes it if no other goroutine
// does.
func (w *writer) makeRoom() {
	w.line.Lock()
	defer w.line.Unlock()
	for w.line.Outbox.Unsent() != nil && w.line.Outbox.Unsent().Len() >= outFlush && !w.line.Outbox.Gone() {
		if w.writing {
			w.line.changed.Wait()
			continue
		}
		w.line.Unlock()
		w.flush()
		w.line.Lock()
	}
}

// finish writes the last bytes of a connection, and returns when no goroutine writes any more.
func (w *writer) finish() {
	w.socket.writeWithin(lingerTimeout)
	w.flush()
	w.line.Lock()
	defer w.line.Unlock()
	for w.writing && !w.line.Outbox.Gone() {
		w.line.changed.Wait()
	}
}
