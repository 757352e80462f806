package transport

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/server/zab"
)

// outPooled is the largest out buffer that is kept for the next messages.
const outPooled = 4 << 20

var (
	errQueue    = &reason{"queue", "more waits to be sent to it than may: it, or the network, is too slow"}
	errReplaced = &reason{"replaced", "the peer has connected anew"}
	errRemoved  = &reason{"removed", "the peer has been removed from the configuration"}
)

// link is a connection that is up.
type link struct {
	t     *Transport
	p     *peer
	hello Hello
	conn  *conn
	sum   bool
	gen   uint64 // set when it is admitted

	wake  chan struct{} // of the writer
	echo  chan struct{} // an echo came
	dead  chan struct{} // closed with mu.err set
	done  chan struct{} // closed when PeerDown has returned
	heard atomic.Uint64 // frames received

	mu struct {
		sync.Mutex
		out     []byte // frames
		writing int    // bytes taken by the writer
		err     error  // why the link is dead, or nil
	}
	spare []byte // the writer's; for the next out
}

func newLink(t *Transport, p *peer, h Hello, c *conn) *link {
	return &link{t: t, p: p, hello: h, conn: c, sum: !h.TLS,
		wake: make(chan struct{}, 1), echo: make(chan struct{}, 1),
		dead: make(chan struct{}), done: make(chan struct{})}
}

// run is the reader. It returns when the link is gone.
func (l *link) run() {
	var writer sync.WaitGroup
	writer.Go(l.writeLoop)
	l.p.linked(l)
	l.t.o.Handler.PeerUp(l.p.id, l.gen, l.hello)
	l.cut(l.readLoop())
	writer.Wait()
	l.t.links[l.p.id].CompareAndSwap(l, nil)
	err := l.cause()
	l.p.unlinked(l, err)
	l.t.o.Handler.PeerDown(l.p.id, l.gen, err)
	close(l.done)
}

// abandon gives up a link that was admitted and never ran: nobody has heard of it.
func (l *link) abandon(err error) {
	l.cut(err)
	l.t.links[l.p.id].CompareAndSwap(l, nil)
	close(l.done)
}

// cut ends the link: the reader and the writer notice.
func (l *link) cut(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutLocked(err)
}

func (l *link) cutLocked(err error) {
	if l.mu.err != nil {
		return
	}
	l.mu.err = err
	l.mu.out = nil
	close(l.dead)
	l.conn.Close()
}

func (l *link) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.err
}

// readLoop hands over frames until the connection fails.
func (l *link) readLoop() error {
	frames := newFrameReader(l.conn, l.sum, l.t.o.MaxFrame, readBuffer)
	var msg zab.Message
	for {
		kind, body, err := frames.next()
		if err != nil {
			return err
		}
		select {
		case <-l.dead:
			return ErrClosed // the cause is set already
		default:
		}
		l.heard.Add(1)
		l.p.framesIn.Add(1)
		if err := l.receive(kind, body, &msg); err != nil {
			return err
		}
	}
}

func (l *link) receive(kind uint8, body []byte, msg *zab.Message) error {
	switch kind {
	case kindMessage, kindEntries:
		if err := msg.Decode(body); err != nil {
			return &reason{"frame", "a message that makes no sense: " + printable(err.Error())}
		}
		if kind == kindMessage && hasEntries(msg) {
			return errFrameKind
		}
		l.t.o.Handler.Receive(l.p.id, l.gen, msg)
		clear(msg.Entries) // they are the handler's; don't keep their memory
	case kindApp:
		if len(body) == 0 {
			return errFrameKind
		}
		l.t.o.Handler.ReceiveApp(l.p.id, l.gen, body[0], body[1:])
	case kindKeepAlive:
	case kindProbe:
		l.signal(kindEcho)
	case kindEcho:
		select {
		case l.echo <- struct{}{}:
		default:
		}
	default:
		return errFrameKind
	}
	return nil
}

// send queues a message.
func (l *link) send(m *zab.Message) {
	kind := kindMessage
	if hasEntries(m) {
		kind = kindEntries
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err == nil {
		l.queueLocked(m.Append(beginFrame(l.mu.out, kind)))
	}
}

// sendApp queues an app frame.
func (l *link) sendApp(kind uint8, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err == nil {
		b := append(beginFrame(l.mu.out, kindApp), kind)
		l.queueLocked(append(b, body...))
	}
}

// signal queues a frame without a body.
func (l *link) signal(kind uint8) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err == nil {
		l.queueLocked(beginFrame(l.mu.out, kind))
	}
}

// queueLocked completes the frame that b has behind mu.out, and makes b mu.out.
func (l *link) queueLocked(b []byte) {
	start := len(l.mu.out)
	if len(b)-start > l.t.o.MaxFrame {
		l.cutLocked(errFrameLong)
		return
	}
	l.mu.out = endFrame(b, start, l.sum)
	l.p.framesOut.Add(1)
	if len(l.mu.out)+l.mu.writing > l.t.o.QueueBytes {
		l.cutLocked(errQueue)
		return
	}
	if start == 0 { // otherwise the writer is awake, and has not taken them yet
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// queued returns how many bytes wait.
func (l *link) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.out) + l.mu.writing
}

// writeLoop is the writer: it writes all that is queued at once.
func (l *link) writeLoop() {
	tick := time.NewTicker(l.t.o.IdleTimeout / 4)
	defer tick.Stop()
	wrote := false
	for {
		select {
		case <-l.wake:
			if err := l.flush(); err != nil {
				l.cut(err)
				return
			}
			wrote = true
		case <-tick.C:
			if !wrote {
				l.signal(kindKeepAlive)
			}
			wrote = false
		case <-l.dead:
			return
		}
	}
}

// flush writes what is queued until nothing is.
func (l *link) flush() error {
	for {
		b := l.take()
		if len(b) == 0 {
			return nil
		}
		if _, err := l.conn.Write(b); err != nil {
			return err
		}
		if cap(b) > outPooled {
			b = nil
		}
		l.spare = b[:0]
	}
}

// take swaps the out buffers.
func (l *link) take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.mu.out
	l.mu.writing = len(b)
	if len(b) > 0 {
		l.mu.out = l.spare[:0]
	}
	return b
}

// ofSameProcess reports whether a hello comes from the process that the link
// leads to.
func (l *link) ofSameProcess(h Hello) bool {
	return l.hello.Boot == h.Boot && l.hello.Incarnation == h.Incarnation
}

// alive reports whether the other side shows life in time. The peer's slot
// must be held.
func (l *link) alive() bool {
	select {
	case <-l.echo: // a late one
	default:
	}
	before := l.heard.Load()
	l.signal(kindProbe)
	wait := time.NewTimer(l.t.o.ProbeTimeout)
	defer wait.Stop()
	select {
	case <-l.echo:
		return true
	case <-l.dead:
		return false
	case <-wait.C:
		return l.heard.Load() != before
	}
}

// hasEntries reports whether a message's decoded form aliases what it was decoded
// from.
func hasEntries(m *zab.Message) bool { return len(m.Entries) > 0 }
