package line

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
)

// UnreadLimit is Lines.Unread of a server.
const UnreadLimit = 64 << 20

// Outbox has what is sent to the client, in its order, until the host takes it, and whether more is sent.
// The host's lock guards it.
type Outbox struct {
	host   outboxHost
	limit  int     // see Lines.Unread
	unsent *Buffer // nil while empty
	mark   int     // where the frame being appended begins

	ending  bool // close once unsent is written; nothing more is appended
	lingers bool // with ending: the client may have sent more
	gone    bool // the connection has ended

	cut atomic.Bool // nothing more is sent: see Cut
}

// outboxHost is the part of Host that an outbox needs.
type outboxHost interface {
	Sent(size int)
	Ending()
}

// Unsent returns the frames that are not taken, or nil.
func (o *Outbox) Unsent() *Buffer { return o.unsent }

// Take takes the frames, or nil.
func (o *Outbox) Take() *Buffer {
	b := o.unsent
	o.unsent = nil
	return b
}

// IsOver reports whether nothing more is sent.
func (o *Outbox) IsOver() bool { return o.ending || o.gone || o.cut.Load() }

// Ends reports whether the connection ends, or has ended.
func (o *Outbox) Ends() bool { return o.ending || o.gone }

// Gone reports whether the connection has ended.
func (o *Outbox) Gone() bool { return o.gone }

// Lingers reports whether the client of a connection that ends may have sent more.
func (o *Outbox) Lingers() bool { return o.lingers }

// Cut has nothing more sent, although the connection has not ended. It may be called from any goroutine.
func (o *Outbox) Cut() { o.cut.Store(true) }

// IsCut reports whether Cut was called. It may be called from any goroutine.
func (o *Outbox) IsCut() bool { return o.cut.Load() }

// Break has nothing more sent, since the socket is broken.
func (o *Outbox) Break() { o.gone = true }

// End makes the bytes in the buffer the connection's last ones.
func (o *Outbox) End(lingers bool) {
	o.ending = true
	o.lingers = o.lingers || lingers
	o.host.Ending()
}

// chunk returns the chunk to append the next frame to.
func (o *Outbox) chunk() []byte {
	if o.unsent == nil {
		o.unsent = buffers.Get().(*Buffer)
	}
	return o.unsent.chunk()
}

// begin starts a frame with a reply header: see Line.Reply.
func (o *Outbox) begin(xid int32, zxid jute.Zxid, code jute.Code) []byte {
	b := o.chunk()
	o.mark = len(b)
	b = append(b, 0, 0, 0, 0)
	b = jute.AppendInt32(b, xid)
	b = jute.AppendInt64(b, zxid)
	return jute.AppendInt32(b, code)
}

// Finish completes the frame that Line.Reply started.
func (o *Outbox) Finish(b []byte) {
	size := len(b) - o.mark - 4
	binary.BigEndian.PutUint32(b[o.mark:], uint32(size))
	if o.IsOver() {
		o.unsent.b = b[:o.mark]
		return
	}
	o.unsent.b = b
	o.unsent.observeSize(size)
	o.host.Sent(size)
}

// Discard discards the frame that Line.Reply started.
func (o *Outbox) Discard(b []byte) { o.unsent.b = b[:o.mark] }

// send appends a frame that the client has not asked for: see Line.Send.
func (o *Outbox) send(frame []byte) bool {
	slow := o.tooSlow() && !o.IsOver()
	slow = slow && !slowKept.Planted()
	if !slow {
		o.put(frame)
	}
	return !slow
}

// put appends a complete frame, including its length prefix, unless the line is over.
func (o *Outbox) put(frame []byte) {
	if o.IsOver() {
		return
	}
	b := append(o.chunk(), frame...)
	o.unsent.b = b
	o.host.Sent(len(frame) - 4)
}

// tooSlow reports whether the client is too slow in taking its output: the buffer is too long,
// without the longest reply in it.
func (o *Outbox) tooSlow() bool {
	return o.unsent != nil && o.unsent.Len()-o.unsent.most > o.limit
}
