package transport

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/zkd-project/zkd/server/zab"
)

var (
	errQueue    = &reason{"queue", "more waits to be sent to it than may: it, or the network, is too slow"}
	errReplaced = &reason{"replaced", "the peer has connected again"}
	errRemoved  = &reason{"removed", "the peer has been removed from the configuration"}

	errUseless = &reason{"useless", "this server ignores what comes over it"}

	errIntroduction = &reason{"introduction", "this server has something else to say of itself"}
)

// link is a connection that is up.
type link struct {
	t     *Transport
	p     *peer
	hello Hello
	said  uint64 // Transport.relinks when this server said hello
	conn  *conn
	sum   bool
	gen   uint64 // set on admission

	wake chan struct{} // wakes the writer
	echo chan struct{} // signals an echo
	dead chan struct{} // closed with mu.err set
	done chan struct{} // closed when PeerDown has returned

	// Used by the reader only.
	begun  time.Time // zero once the first echo has come
	joiner joiner

	mu struct {
		sync.Mutex
		control outQueue // frames
		bulk    outQueue // records; see cutter
		pace    pacer
		hungry  bool // Room was short: call Handler.Drained when there is more
		debt    debt
		asked   time.Time // when the probe was sent whose echo tells the peer's clock; zero if none is under way
		err     error     // why the link is dead, or nil
	}
}

func newLink(p *peer, hs *handshake, c *conn) *link {
	t, h := p.t, hs.hello()
	l := &link{t: t, p: p, hello: h, said: hs.said, conn: c, sum: !h.TLS,
		wake: make(chan struct{}, 1), echo: make(chan struct{}, 1),
		dead: make(chan struct{}), done: make(chan struct{}),
		joiner: joiner{max: t.o.MaxFrame}}
	p.delay.Store(0)
	l.mu.pace = newPacer(t.o.BulkDelay, &p.delay)
	return l
}

// run is the reader. It returns when the link is down.
func (l *link) run() {
	var writer sync.WaitGroup
	writer.Go(l.writeLoop)
	l.p.linked(l)
	l.begun = time.Now()
	l.probe()
	l.t.o.Handler.PeerUp(l.p.id, l.gen, l.hello)
	l.cut(l.readLoop())
	writer.Wait()
	err := l.cause()
	l.p.unlinked(l, err)
	l.t.o.Handler.PeerDown(l.p.id, l.gen, err)
	l.t.links[l.p.id].CompareAndSwap(l, nil) // not before: the next link waits for the holder of the place
	close(l.done)
}

// abandon gives up a link that was admitted and never ran, so that no PeerUp was called.
func (l *link) abandon(err error) {
	l.cut(err)
	l.t.links[l.p.id].CompareAndSwap(l, nil)
	close(l.done)
}

// cut ends the link: the reader and the writer notice it.
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
	l.mu.control.chunks, l.mu.bulk.chunks = nil, nil
	if l.mu.debt.timer != nil {
		l.mu.debt.timer.Stop()
	}
	close(l.dead)
	l.conn.Close()
}

func (l *link) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.err
}

// readLoop delivers frames until the connection fails.
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
			return ErrClosed // the cause has been set
		default:
		}
		l.p.framesIn.Add(1)
		inBulk, asked, whole := kind&bulk != 0, kind&asks != 0, true
		if inBulk {
			l.p.bulkIn.Add(uint64(frames.size()))
			kind, body, whole, err = l.join(kind&^(bulk|asks), body)
		}
		if whole && err == nil {
			err = l.receive(kind, body, &msg)
		}
		if err != nil {
			return err
		}
		if inBulk {
			l.owe(frames.size(), asked, !frames.drained())
		}
	}
}

// join assembles long frames of the bulk lane. It reports whether it returns a whole frame.
func (l *link) join(kind uint8, body []byte) (_ uint8, _ []byte, whole bool, err error) {
	switch kind {
	case kindLong:
		return 0, nil, false, l.joiner.begin(body)
	case kindPiece:
		kind, body, err = l.joiner.add(body)
		return kind, body, body != nil, err
	}
	if l.joiner.size > 0 || kind < kindMessage || kind > kindApp {
		return 0, nil, false, errFrameKind
	}
	return kind, body, true, nil
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
		clear(msg.Entries) // the handler owns them; drop the references
	case kindApp:
		if len(body) == 0 {
			return errFrameKind
		}
		l.t.o.Handler.ReceiveApp(l.p.id, l.gen, body[0], body[1:])
	case kindCredit:
		return l.credit(body)
	case kindKeepAlive:
	case kindProbe:
		l.control(kindEcho, binary.BigEndian.AppendUint64(nil, uint64(l.t.o.Wall().UnixNano())))
	case kindEcho:
		l.measure()
		l.compareClocks(body)
		select {
		case l.echo <- struct{}{}:
		default:
		}
	default:
		return errFrameKind
	}
	return nil
}

// measure takes the time of the first echo as the delay of the idle path: nothing else has
// been sent over it.
func (l *link) measure() {
	if !l.begun.IsZero() {
		l.p.delay.CompareAndSwap(0, int64(max(time.Since(l.begun), 1)))
		l.begun = time.Time{}
	}
}

// probe requests an echo.
func (l *link) probe() {
	l.mu.Lock()
	if l.mu.asked.IsZero() {
		l.mu.asked = time.Now()
	}
	l.mu.Unlock()
	l.signal(kindProbe)
}

// compareClocks compares the peer's wall clock, which is in an echo, with this server's, as far as the time for which
// the echo was under way allows. Earlier versions send echoes without it.
func (l *link) compareClocks(body []byte) {
	l.mu.Lock()
	asked := l.mu.asked
	l.mu.asked = time.Time{}
	l.mu.Unlock()
	if len(body) < 8 || asked.IsZero() {
		return
	}
	doubt := time.Since(asked) / 2
	ahead := time.Unix(0, int64(binary.BigEndian.Uint64(body))).Sub(l.t.o.Wall().Add(-doubt))
	l.p.ahead.Store(int64(max(ahead-doubt, 0) + min(ahead+doubt, 0)))
}

// credit records how many bulk bytes the peer has read.
func (l *link) credit(body []byte) error {
	if len(body) != 8 {
		return errFrameKind
	}
	read := binary.BigEndian.Uint64(body)
	l.mu.Lock()
	before := l.mu.pace.read
	if !l.mu.pace.credit(read, time.Now()) {
		l.mu.Unlock()
		return errFrameKind
	}
	fed := l.mu.hungry && 2*l.roomLocked() >= l.limitLocked()
	if fed {
		l.mu.hungry = false
	}
	waits := l.mu.bulk.bytes > 0
	l.mu.Unlock()
	l.p.bulkOut.Add(read - before)
	if waits {
		l.wakeWriter()
	}
	if fed {
		l.t.o.Handler.Drained(l.p.id, l.gen)
	}
	return nil
}

// leastBacklog is the minimum that the bulk lane accepts.
const leastBacklog = 256 << 10

// limitLocked returns how many bulk bytes should be under way: the window, and as much
// again in the queue, so that the writer does not wait for the handler.
func (l *link) limitLocked() int { return max(2*l.mu.pace.window, leastBacklog) }

func (l *link) roomLocked() int {
	return max(0, l.limitLocked()-l.mu.bulk.bytes-l.mu.pace.unread())
}

// room returns how many bytes the bulk lane should be given now.
func (l *link) room() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.pace.age(time.Now())
	n := l.roomLocked()
	if 2*n < l.limitLocked() {
		l.mu.hungry = true
	}
	return n
}

// send queues a message.
func (l *link) send(m *zab.Message) {
	kind := kindMessage
	if hasEntries(m) {
		kind = kindEntries
	}
	lane := laneOf(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, b := l.beginLocked(lane, kind, sizeOf(m)); c != nil {
		l.queueLocked(lane, c, m.Append(b))
	}
}

// sendApp queues an app frame.
func (l *link) sendApp(lane Lane, kind uint8, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, b := l.beginLocked(lane, kindApp, frameHead+1+len(body)+frameTail); c != nil {
		l.queueLocked(lane, c, append(append(b, kind), body...))
	}
}

// control queues a frame of the transport itself.
func (l *link) control(kind uint8, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, b := l.beginLocked(Control, kind, frameHead+len(body)+frameTail); c != nil {
		l.queueLocked(Control, c, append(b, body...))
	}
}

// signal queues a frame without a body.
func (l *link) signal(kind uint8) { l.control(kind, nil) }

// beginLocked returns the chunk for a frame of about n bytes, and its bytes with the head
// of the frame appended. It returns nil if the link is dead.
func (l *link) beginLocked(lane Lane, kind uint8, n int) (*chunk, []byte) {
	switch {
	case l.mu.err != nil:
		return nil, nil
	case lane == Control:
		c := l.mu.control.begin(n)
		return c, beginFrame(c.b, kind)
	}
	c := l.mu.bulk.begin(n)
	return c, beginRecord(c.b, kind)
}

// queueLocked completes the frame or record at the end of b, and makes b the bytes of the
// chunk.
func (l *link) queueLocked(lane Lane, c *chunk, b []byte) {
	start := len(c.b)
	if len(b)-start > l.t.o.MaxFrame {
		l.cutLocked(errFrameLong)
		return
	}
	q, most := &l.mu.bulk, l.t.o.QueueBytes
	if lane == Control {
		q, most = &l.mu.control, mostControl
		c.b = endFrame(b, start, l.sum)
	} else {
		endRecord(b, start)
		c.b = b
	}
	l.p.framesOut.Add(1)
	if q.bytes += len(c.b) - start; q.bytes > most {
		l.cutLocked(errQueue)
		return
	}
	if start == 0 { // otherwise the writer is awake, and has not taken the chunk yet
		l.wakeWriter()
	}
}

// mostControl is how many bytes may wait in the control lane before the link is cut. The
// longest frames there are reports of touches: some 20 bytes for each session.
const mostControl = 32 << 20

func (l *link) wakeWriter() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// load returns the queued bytes of each lane, and the bulk lane's unread bytes and window.
func (l *link) load() (control, bulk, unread, window int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.control.bytes, l.mu.bulk.bytes, l.mu.pace.unread(), l.mu.pace.window
}

// compareTicks is how many ticks of the writer pass between two looks at the peer's clock.
const compareTicks = 20

// writeLoop is the writer.
func (l *link) writeLoop() {
	tick := time.NewTicker(l.t.o.keepAlive())
	defer tick.Stop()
	w := writing{cutter: cutter{sum: l.sum}, buf: make([]byte, 0, shortBuffer)}
	ticks := 0
	for quiet := false; ; {
		select {
		case <-l.wake:
			quiet = false
		case <-tick.C:
			if ticks++; ticks%compareTicks == 0 {
				l.probe()
			}
			if quiet {
				l.signal(kindKeepAlive)
				l.clearWake()
			}
			quiet = true
		case <-l.dead:
			return
		}
		for l.take(&w) {
			if err := l.write(&w); err != nil {
				l.cut(err)
				return
			}
		}
	}
}

// clearWake cancels the wake-up for frames that the writer is about to write.
func (l *link) clearWake() {
	select {
	case <-l.wake:
	default:
	}
}

// Sizes of one write in the bulk lane, as far as the window allows. Control frames go out
// between two writes.
const (
	writeBuffer = 256 << 10
	shortBuffer = 64 << 10 // while the window is small
)

// writing holds what the writer has taken from the queues.
type writing struct {
	control []*chunk
	cutter
	buf []byte // frames of the bulk lane
}

// take collects the next bytes to write: all control frames, and bulk frames as far as the
// window allows. It reports whether there are any.
func (l *link) take(w *writing) bool {
	room, quiet := l.takeQueues(w)
	w.buf = w.buf[:0]
	if room > shortBuffer && cap(w.buf) < writeBuffer {
		w.buf = make([]byte, 0, writeBuffer)
	}
	if room > 0 {
		var unasked, records int
		w.buf, unasked, records = w.cut(w.buf, room, quiet)
		l.wrote(len(w.buf), unasked, records)
	}
	return len(w.control)+len(w.buf) > 0
}

// takeQueues takes the queues. It returns how many bulk bytes may be written, 0 if the next
// frame is longer, and how many of them need no credit at once.
func (l *link) takeQueues(w *writing) (room, quiet int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.control.chunks) > 0 || len(l.mu.bulk.chunks) > 0 {
		l.payLocked() // goes out with this write anyway
	}
	l.mu.control.chunks, w.control = w.control[:0], l.mu.control.chunks
	if !w.pending() {
		for i, c := range w.list {
			l.mu.bulk.recycle(c)
			w.list[i] = nil
		}
		l.mu.bulk.chunks, w.list, w.spent = w.list[:0], l.mu.bulk.chunks, 0
	}
	if !w.pending() {
		return 0, 0
	}
	return l.mu.pace.room(w.next(), time.Now()), l.mu.pace.quiet()
}

// wrote records that bulk frames are about to be written, with the given number of bytes of
// records. The frames after the first unasked bytes ask for a credit.
func (l *link) wrote(frames, unasked, records int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.bulk.bytes -= records
	l.mu.pace.write(unasked, frames-unasked, time.Now())
}

// write writes the bytes that take has collected.
func (l *link) write(w *writing) error {
	n := 0
	for i, c := range w.control {
		n += len(c.b)
		if i == len(w.control)-1 && len(c.b)+len(w.buf) <= cap(c.b) { // one write instead of two
			c.b, w.buf = append(c.b, w.buf...), w.buf[:0]
		}
		if _, err := l.conn.Write(c.b); err != nil {
			return err
		}
	}
	l.written(w, n)
	if len(w.buf) == 0 {
		return nil
	}
	_, err := l.conn.Write(w.buf)
	return err
}

// written releases the chunks of n bytes of control frames.
func (l *link) written(w *writing, n int) {
	if n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.control.bytes -= n
	for i, c := range w.control {
		l.mu.control.recycle(c)
		w.control[i] = nil
	}
}

// ofSameProcess reports whether a hello comes from the process at the other end of the
// link.
func (l *link) ofSameProcess(h Hello) bool {
	return l.hello.Boot == h.Boot
}

// alive reports whether the peer answers in time. The peer's slot must be held.
func (l *link) alive() bool {
	select {
	case <-l.echo: // a late one
	default:
	}
	before := l.conn.reads.Load()
	l.probe()
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

// hasEntries reports whether the decoded message aliases the bytes that it was decoded
// from.
func hasEntries(m *zab.Message) bool { return len(m.Entries) > 0 }
