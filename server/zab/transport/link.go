package transport

import (
	"sync"
	"time"

	"github.com/zkd-project/zkd/server/zab"
)

var (
	errQueue    = &reason{"queue", "more waits to be sent to it than may: it, or the network, is too slow"}
	errReplaced = &reason{"replaced", "the peer has connected anew"}
	errRemoved  = &reason{"removed", "the peer has been removed from the configuration"}

	errIntroduction = &reason{"introduction", "this server has something else to say of itself"}
)

// link is a connection that is up.
type link struct {
	t     *Transport
	p     *peer
	hello Hello
	conn  *conn
	sum   bool
	gen   uint64 // set when it is admitted

	wake chan struct{} // of the writer
	echo chan struct{} // an echo came
	dead chan struct{} // closed with mu.err set
	done chan struct{} // closed when PeerDown has returned

	mu struct {
		sync.Mutex
		out outQueue
		err error // why the link is dead, or nil
	}
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
	err := l.cause()
	l.p.unlinked(l, err)
	l.t.o.Handler.PeerDown(l.p.id, l.gen, err)
	l.t.links[l.p.id].CompareAndSwap(l, nil) // not before: the next link waits for what has the place
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
	l.mu.out.chunks = nil
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
		c := l.mu.out.begin(sizeOf(m))
		l.queueLocked(c, m.Append(beginFrame(c.b, kind)))
	}
}

// sendApp queues an app frame.
func (l *link) sendApp(kind uint8, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err == nil {
		c := l.mu.out.begin(frameHead + 1 + len(body) + frameTail)
		b := append(beginFrame(c.b, kindApp), kind)
		l.queueLocked(c, append(b, body...))
	}
}

// signal queues a frame without a body.
func (l *link) signal(kind uint8) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err == nil {
		c := l.mu.out.begin(frameHead + frameTail)
		l.queueLocked(c, beginFrame(c.b, kind))
	}
}

// queueLocked completes the frame that b has behind the chunk's bytes, and makes
// b these.
func (l *link) queueLocked(c *chunk, b []byte) {
	start := len(c.b)
	if len(b)-start > l.t.o.MaxFrame {
		l.cutLocked(errFrameLong)
		return
	}
	c.b = endFrame(b, start, l.sum)
	l.p.framesOut.Add(1)
	if l.mu.out.bytes += len(c.b) - start; l.mu.out.bytes > l.t.o.QueueBytes {
		l.cutLocked(errQueue)
		return
	}
	if start == 0 { // otherwise the writer is awake, and has not taken the chunk yet
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
	return l.mu.out.bytes
}

// writeLoop is the writer: it writes all that is queued at once.
func (l *link) writeLoop() {
	tick := time.NewTicker(l.t.o.keepAlive())
	defer tick.Stop()
	var list []*chunk // to swap with the queue's
	for quiet := false; ; {
		select {
		case <-l.wake:
			quiet = false
		case <-tick.C:
			if quiet {
				l.signal(kindKeepAlive)
				l.unwake()
			}
			quiet = true
		case <-l.dead:
			return
		}
		for list = l.take(list); len(list) > 0; list = l.take(list) {
			if err := l.write(list); err != nil {
				l.cut(err)
				return
			}
		}
	}
}

// unwake takes the wake-up back of what the writer is about to write.
func (l *link) unwake() {
	select {
	case <-l.wake:
	default:
	}
}

// write writes chunks and gives them back.
func (l *link) write(list []*chunk) error {
	for i, c := range list {
		if _, err := l.conn.Write(c.b); err != nil {
			return err
		}
		l.written(c)
		list[i] = nil
	}
	return nil
}

// take swaps the queue's chunks with an empty list.
func (l *link) take(empty []*chunk) []*chunk {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.mu.out.chunks
	l.mu.out.chunks = empty[:0]
	return list
}

func (l *link) written(c *chunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.out.written(c)
}

// ofSameProcess reports whether a hello comes from the process that the link
// leads to.
func (l *link) ofSameProcess(h Hello) bool {
	return l.hello.Boot == h.Boot
}

// alive reports whether the other side shows life in time. The peer's slot
// must be held.
func (l *link) alive() bool {
	select {
	case <-l.echo: // a late one
	default:
	}
	before := l.conn.reads.Load()
	l.signal(kindProbe)
	wait := time.NewTimer(l.t.o.ProbeTimeout)
	defer wait.Stop()
	select {
	case <-l.echo:
		return true
	case <-l.dead:
		return false
	case <-wait.C:
		return l.conn.reads.Load() != before
	}
}

// hasEntries reports whether a message's decoded form aliases what it was decoded
// from.
func hasEntries(m *zab.Message) bool { return len(m.Entries) > 0 }
