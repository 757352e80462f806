package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// reader takes replies from the socket until the connection ends.
func (c *conn) reader(buf []byte) {
	c.stop(c.read(buf))
}

func (c *conn) read(buf []byte) error {
	var r, w int // buf[r:w] is not handled yet
	patience := c.timeout * 5 / 4
	var renewed int64 // when the read deadline was set
	for {
		if now := c.clock.now(); renewed == 0 || now-renewed > int64(c.timeout/4) {
			renewed = now
			if err := c.nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
				return c.readError(err, w-r)
			}
		}
		n, err := c.nc.Read(buf[w:])
		if err != nil {
			return c.readError(err, w-r)
		}
		w += n
		if r, err = c.handleAll(buf[:w], r); err != nil {
			return err
		}
		buf, r, w = makeRoom(buf, r, w)
	}
}

// readError explains the end of the stream; unhandled bytes of a frame were received.
func (c *conn) readError(err error, unhandled int) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: session %s", ErrSilent, c.id)
	case errors.Is(err, io.EOF) && c.closing.Load() && c.outstanding() == 0:
		return errClosed
	case errors.Is(err, net.ErrClosed):
		return errClosed
	}
	return fmt.Errorf("%w: session %s, %d requests without reply, %d bytes of a frame received: %w",
		ErrLost, c.id, c.outstanding(), unhandled, err)
}

// makeRoom returns a buffer that starts with buf[r:w] and has room after it. It
// grows with what has arrived, not with the length that a frame claims.
func makeRoom(buf []byte, r, w int) ([]byte, int, int) {
	have := w - r
	if have == 0 {
		return buf, 0, 0
	}
	need := frameHeader
	if have >= frameHeader {
		need += int(binary.BigEndian.Uint32(buf[r:]))
	}
	switch {
	case need > len(buf) && have > len(buf)/2:
		grown := make([]byte, min(need, 2*len(buf)))
		return grown, 0, copy(grown, buf[r:w])
	case need > len(buf)-r || len(buf)-w < len(buf)/4:
		return buf, 0, copy(buf, buf[r:w])
	}
	return buf, r, w
}

// handleAll handles the complete frames in b[r:] and returns where the first incomplete one
// starts. Then it notifies the sender.
func (c *conn) handleAll(b []byte, r int) (int, error) {
	now := c.clock.now()
	tail := c.tail.Load()
	head := c.head.Load()
	j := c.job.Load()
	for len(b)-r >= frameHeader {
		n := binary.BigEndian.Uint32(b[r:])
		if n < replyHeader || n > maxReply {
			return r, fmt.Errorf("%w: reply frame of %d bytes", ErrProtocol, n)
		}
		if uint64(len(b)-r-frameHeader) < uint64(n) {
			break
		}
		frame := b[r+frameHeader : r+frameHeader+int(n)]
		r += frameHeader + int(n)
		xid := int32(binary.BigEndian.Uint32(frame))
		if xid == jute.XidPing || xid == jute.XidNotification {
			if err := c.outOfBand(xid, frame, now); err != nil {
				return r, err
			}
			continue
		}
		if tail == head {
			return r, fmt.Errorf("%w: reply with xid %d, but no request is outstanding", ErrProtocol, xid)
		}
		p := &c.ring[tail%uint64(len(c.ring))]
		if p.xid != xid {
			return r, fmt.Errorf("%w: reply with xid %d, want %d", ErrProtocol, xid, p.xid)
		}
		j.reply(p, frame, now)
		tail++
	}
	if before := c.tail.Load(); tail != before {
		if c.count != nil {
			c.count.Add(int64(tail - before))
		}
		c.tail.Store(tail)
		if !c.refill(now) {
			c.wake()
		}
	}
	return r, nil
}

// outOfBand handles the frames that do not answer a request of the ring.
func (c *conn) outOfBand(xid int32, frame []byte, now int64) error {
	if xid == jute.XidPing {
		return nil
	}
	if c.notify == nil {
		return fmt.Errorf("%w: watch event, but no watch was set", ErrProtocol)
	}
	return c.notify(now, frame[replyHeader:])
}
