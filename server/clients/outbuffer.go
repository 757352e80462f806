package clients

import (
	"encoding/binary"
	"sync"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/monitor"
)

const (
	outFlush  = 64 << 10          // the reader writes the socket before it answers more requests
	outPooled = 1 << 20           // larger buffers are left to the garbage collector
	outFull   = 3 * outPooled / 4 // after that many bytes a new chunk begins
	// outLimit is how many unread bytes from the applier a client may have, beside one reply of
	// any length, before it is disconnected: watch events, and replies to reads after a write.
	// Other requests are limited by not reading the client's next one. All clients together are
	// limited by unread.
	outLimit = 64 << 20
)

// outBuffer holds encoded frames on their way to a client. Only connections with
// unwritten output have one. A long one consists of chunks: it is not copied as it grows,
// and so takes no more memory than its contents, whenever the garbage collector runs.
type outBuffer struct {
	full     [][]byte // chunks, the oldest first
	fullSize int      // bytes in full
	b        []byte   // the last chunk
	counted  int      // bytes that are counted in Clients.unread
	audited  uint64   // entry of the audit log that must be written before; 0 for none
	// sizes of the replies in the buffer; all 0 if there are none
	last, least, most int
}

// observeSize records the size of a reply.
func (o *outBuffer) observeSize(size int) {
	o.last, o.most = size, max(o.most, size)
	if o.least == 0 || size < o.least {
		o.least = size
	}
}

// showSizes counts all replies in one step, because all connections share the counter.
func (o *outBuffer) showSizes(sizes *monitor.Sizes) {
	if o.most > 0 {
		sizes.ObserveAll(int64(o.last), int64(o.least), int64(o.most))
	}
}

func (o *outBuffer) len() int { return o.fullSize + len(o.b) }

// chunk returns the chunk to append the next frame to.
func (o *outBuffer) chunk() []byte {
	if len(o.b) >= outFull {
		o.full = append(o.full, o.b)
		o.fullSize += len(o.b)
		o.b = make([]byte, 0, outPooled)
	}
	return o.b
}

var outBuffers = sync.Pool{New: func() any { return &outBuffer{b: make([]byte, 0, 4<<10)} }}

// releaseOut releases a buffer that was written, or will not be.
func (c *conn) releaseOut(o *outBuffer) {
	if o.counted > 0 {
		c.clients.unread.add(c, -int64(o.counted))
	}
	if cap(o.b) <= outPooled {
		*o = outBuffer{b: o.b[:0]}
		outBuffers.Put(o)
	}
}

// dropOutLocked discards the unwritten output.
func (c *conn) dropOutLocked() {
	if c.mu.out != nil {
		c.releaseOut(c.mu.out)
		c.mu.out = nil
	}
}

// begin locks the connection, starts a frame with a reply header, and returns
// the buffer to append the body to. end must follow.
func (c *conn) begin(xid int32, zxid jute.Zxid, code jute.Code) []byte {
	c.mu.Lock()
	return c.beginLocked(xid, zxid, code)
}

func (c *conn) beginLocked(xid int32, zxid jute.Zxid, code jute.Code) []byte {
	if !c.mu.feeds.Empty() {
		c.mu.feeds.CatchUp(c.sendEventLocked)
	}
	if c.mu.out == nil {
		c.mu.out = outBuffers.Get().(*outBuffer)
	}
	b := c.mu.out.chunk()
	c.mu.mark = len(b)
	b = append(b, 0, 0, 0, 0)
	b = jute.AppendInt32(b, xid)
	b = jute.AppendInt64(b, zxid)
	return jute.AppendInt32(b, code)
}

// end completes the frame that begin started and unlocks the connection.
func (c *conn) end(b []byte) {
	c.endLocked(b)
	c.mu.Unlock()
}

func (c *conn) endLocked(b []byte) {
	size := len(b) - c.mu.mark - 4
	binary.BigEndian.PutUint32(b[c.mu.mark:], uint32(size))
	if c.isOverLocked() {
		c.mu.out.b = b[:c.mu.mark]
		return
	}
	c.mu.out.b = b
	c.countFrameLocked(size)
}

// isOverLocked reports whether nothing more is sent on the connection.
func (c *conn) isOverLocked() bool { return c.mu.ending || c.mu.gone || c.cut.Load() }

// countFrameLocked counts a frame that was appended.
func (c *conn) countFrameLocked(size int) {
	c.mu.stats.sent++
	c.clients.metrics.PacketsSent.Add(1)
	c.mu.out.observeSize(size)
	c.countOutLocked()
}

// countOutLocked updates what is unread, and ends the connections that have too much of it. A short
// buffer, as most are, does not count.
func (c *conn) countOutLocked() {
	if out := c.mu.out; out.len() > outFlush {
		over := c.clients.unread.add(c, int64(out.len()-out.counted))
		out.counted = out.len()
		c.clients.cutOff(over)
	}
}

// overLimitLocked reports whether the client is too slow in taking its output: its buffer is too long,
// without the longest reply in it.
func (c *conn) overLimitLocked() bool {
	out := c.mu.out
	return out != nil && out.len()-out.most > outLimit
}

// discard discards the frame that begin started and unlocks the connection.
func (c *conn) discard(b []byte) {
	c.mu.out.b = b[:c.mu.mark]
	c.mu.Unlock()
}

// reply appends a reply without a body.
func (c *conn) reply(xid int32, zxid jute.Zxid, code jute.Code) {
	c.end(c.begin(xid, zxid, code))
}

// send appends a complete frame, including its length prefix. It returns false if the
// client is too slow to be sent any more.
func (c *conn) send(frame []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.feeds.Empty() {
		c.mu.feeds.CatchUp(c.sendEventLocked)
	}
	if c.isOverLocked() {
		return true
	}
	if c.overLimitLocked() {
		return false
	}
	if c.mu.out == nil {
		c.mu.out = outBuffers.Get().(*outBuffer)
	}
	c.mu.out.b = append(c.mu.out.chunk(), frame...)
	c.countOutLocked()
	c.mu.stats.sent++
	c.clients.metrics.PacketsSent.Add(1)
	return true
}

// endAfterFlush makes the bytes in the out buffer the connection's last ones, and wakes
// the reader, which writes them and finishes.
func (c *conn) endAfterFlush() { c.endWith(true) }

// endSession is endAfterFlush for the reply to a closeSession, after which a client sends
// nothing.
func (c *conn) endSession() { c.endWith(false) }

func (c *conn) endWith(lingers bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endWithLocked(lingers)
}

func (c *conn) endWithLocked(lingers bool) {
	c.mu.ending = true
	c.mu.lingers = c.mu.lingers || lingers
	c.interruptLocked()
}

// flush writes the out buffer to the socket. If another goroutine is writing, that
// goroutine also writes the added bytes. flush blocks while the client does not read,
// which pauses the reader of a slow client.
func (c *conn) flush() {
	if out := c.takeOut(); out != nil {
		c.writeOut(out)
	}
}

// takeOut returns the out buffer, and makes the caller the one that writes the socket: nextOut must
// follow when it is written. It returns nil if there is nothing to write, or another goroutine writes.
func (c *conn) takeOut() *outBuffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.writing {
		return nil
	}
	return c.takeOutLocked()
}

// nextOut returns what was put into the out buffer while the last one was written, or nil: then the
// caller no longer writes the socket. err is the outcome of that write.
func (c *conn) nextOut(err error) *outBuffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.mu.gone = true
		c.nc.Close() // wakes the reader, which tears the connection down
		c.unparkLocked()
	}
	out := c.takeOutLocked()
	c.drained.Broadcast()
	return out
}

func (c *conn) takeOutLocked() *outBuffer {
	out := c.mu.out
	if c.mu.gone {
		out = nil
	}
	if c.mu.writing = out != nil; c.mu.writing {
		c.mu.out = nil
		out.audited = c.mu.audited
		c.mu.stats.bytesOut += int64(out.len())
		c.drained.Broadcast() // for a reader that waits for room
		out.showSizes(&c.clients.metrics.ResponseSizes)
	}
	return out
}

// writeOut writes what takeOut has returned, and what is added meanwhile.
func (c *conn) writeOut(out *outBuffer) {
	c.writeSoon()
	for out != nil {
		err := c.clients.audit.Load().wait(c, out.audited)
		if err == nil {
			err = c.write(out)
		}
		c.releaseOut(out)
		out = c.nextOut(err)
	}
}

// write writes the chunks to the socket, and releases each chunk once it is written.
func (c *conn) write(out *outBuffer) error {
	for i, b := range out.full {
		if _, err := c.stream.Write(b); err != nil {
			return err
		}
		c.clients.metrics.BytesSent.Add(int64(len(b)))
		out.full[i] = nil
	}
	if l := c.limited.Load(); l != nil {
		l.Sent(int64(out.len()))
	}
	n, err := c.stream.Write(out.b)
	c.clients.metrics.BytesSent.Add(int64(n))
	return err
}

// makeRoom waits until the out buffer is short again, and writes it if no other goroutine
// does.
func (c *conn) makeRoom() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.mu.out != nil && c.mu.out.len() >= outFlush && !c.mu.gone {
		if c.mu.writing {
			c.drained.Wait()
			continue
		}
		c.mu.Unlock()
		c.flush()
		c.mu.Lock()
	}
}
