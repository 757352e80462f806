package clients

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
)

// outFlush is how many bytes the reader lets wait before it answers more requests.
const outFlush = 64 << 10

// releaseOut releases a buffer that was written, or will not be. It may be nil.
func (c *conn) releaseOut(o *line.Buffer) {
	if o == nil {
		return
	}
	if o.Counted > 0 {
		c.clients.unread.add(c, -int64(o.Counted))
	}
	o.Release()
}

// countOutLocked updates what is unread, and ends the connections that have too much of it. A short
// buffer, as most are, does not count.
func (c *conn) countOutLocked() {
	if out := c.line.Out(); out.Len() > outFlush {
		over := c.clients.unread.add(c, int64(out.Len()-out.Counted))
		out.Counted = out.Len()
		c.clients.cutOff(over)
	}
}

// reply appends a reply without a body.
func (c *conn) reply(xid int32, zxid jute.Zxid, code jute.Code) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line.ReplyCode(xid, zxid, code)
}

// endAfterFlush makes the bytes in the buffer the connection's last ones, and wakes
// the reader, which writes them and finishes.
func (c *conn) endAfterFlush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line.End(true)
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
func (c *conn) takeOut() *line.Buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.writing {
		return nil
	}
	return c.takeOutLocked()
}

// nextOut returns what was put into the out buffer while the last one was written, or nil: then the
// caller no longer writes the socket. err is the outcome of that write.
func (c *conn) nextOut(err error) *line.Buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.line.Break()
		c.nc.Close() // wakes the reader, which tears the connection down
		c.unparkLocked()
	}
	out := c.takeOutLocked()
	c.drained.Broadcast()
	return out
}

func (c *conn) takeOutLocked() *line.Buffer {
	var out *line.Buffer
	if !c.line.Gone() {
		out = c.line.Take()
	}
	if c.mu.writing = out != nil; c.mu.writing {
		out.Audited = c.mu.audited
		c.mu.stats.bytesOut += int64(out.Len())
		c.drained.Broadcast()                           // for a reader that waits for room
		if last, least, most := out.Sizes(); most > 0 { // in one step, because all connections share the counter
			c.clients.metrics.ResponseSizes.ObserveAll(int64(last), int64(least), int64(most))
		}
	}
	return out
}

// writeOut writes what takeOut has returned, and what is added meanwhile.
func (c *conn) writeOut(out *line.Buffer) {
	c.writeSoon()
	for out != nil {
		err := c.clients.audit.Load().wait(c, out.Audited)
		if err == nil {
			err = c.write(out)
		}
		c.releaseOut(out)
		out = c.nextOut(err)
	}
}

// write writes the chunks to the socket, and releases each chunk once it is written.
func (c *conn) write(out *line.Buffer) error {
	full := out.Full()
	for i, b := range full {
		if _, err := c.stream.Write(b); err != nil {
			return err
		}
		c.clients.metrics.BytesSent.Add(int64(len(b)))
		full[i] = nil
	}
	if l := c.limited.Load(); l != nil {
		l.Sent(int64(out.Len()))
	}
	n, err := c.stream.Write(out.Last())
	c.clients.metrics.BytesSent.Add(int64(n))
	return err
}

// makeRoom waits until the out buffer is short again, and writes it if no other goroutine
// does.
func (c *conn) makeRoom() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.line.Out() != nil && c.line.Out().Len() >= outFlush && !c.line.Gone() {
		if c.mu.writing {
			c.drained.Wait()
			continue
		}
		c.mu.Unlock()
		c.flush()
		c.mu.Lock()
	}
}
