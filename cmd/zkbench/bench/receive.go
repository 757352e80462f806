package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/zkd-project/zkd/internal/frames"
	"github.com/zkd-project/zkd/jute"
)

// reader takes replies from the socket until the connection ends.
func (c *conn) reader() {
	c.stop(c.read(newFrames(c.nc, maxReply)))
}

func (c *conn) read(in *frames.Reader) error {
	patience := c.timeout * 5 / 4
	var renewed int64 // when the read deadline was set
	for {
		if now := c.clock.now(); renewed == 0 || now-renewed > int64(c.timeout/4) {
			renewed = now
			if err := c.nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
				return c.readError(err, in.Buffered())
			}
		}
		if _, err := in.Fill(); err != nil {
			return c.readError(err, in.Buffered())
		}
		if err := c.handleAll(in); err != nil {
			return err
		}
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

// handleAll handles the complete frames that have come. Then it notifies the sender.
func (c *conn) handleAll(in *frames.Reader) error {
	now := c.clock.now()
	tail := c.tail.Load()
	head := c.head.Load()
	j := c.job.Load()
	for {
		frame, ok, err := in.Next()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		if !ok {
			break
		}
		if len(frame) < replyHeader {
			return fmt.Errorf("%w: reply frame of %d bytes", ErrProtocol, len(frame))
		}
		xid := int32(binary.BigEndian.Uint32(frame))
		if xid == jute.XidPing || xid == jute.XidNotification {
			if err := c.outOfBand(xid, frame, now); err != nil {
				return err
			}
			continue
		}
		if tail == head {
			return fmt.Errorf("%w: reply with xid %d, but no request is outstanding", ErrProtocol, xid)
		}
		p := &c.ring[tail%uint64(len(c.ring))]
		if p.xid != xid {
			return fmt.Errorf("%w: reply with xid %d, want %d", ErrProtocol, xid, p.xid)
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
	return nil
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
