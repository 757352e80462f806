package clients

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line"
)

// host is a connection as its line sees it: see line.Host.
type host conn

func (h *host) conn() *conn { return (*conn)(h) }

// connOf returns the connection of a line, or nil.
func connOf(l *line.Line) *conn {
	if l == nil {
		return nil
	}
	return l.Host().(*host).conn()
}

func (h *host) Lock()    { h.line.Lock() }
func (h *host) Unlock()  { h.line.Unlock() }
func (h *host) Kill()    { h.conn().kill() }
func (h *host) Decided() { close(h.decided) }
func (h *host) Ending()  { h.conn().interruptLocked() }

// Operate answers a request for a drain.
func (h *host) Operate(req *line.Request) {
	s := h.shared
	left, err := s.drain.serve(&h.line, req, s.lines.MayOperate(&h.line.Line, req))
	if a := s.audit.Load(); !a.off() {
		h.line.waitFor(a.operated(h.conn().author(req.Auth), req, codeOf(err)))
	}
	zxid := s.state.Tree.LastZxid()
	h.line.Lock()
	defer h.line.Unlock()
	h.stats.answered(req, zxid)
	if req.Code = codeOf(err); err != nil {
		h.line.ReplyCode(req.Xid, zxid, req.Code)
		return
	}
	h.line.Outbox.Finish(jute.AppendInt32(h.line.Reply(req.Xid, zxid, 0), int32(left)))
}

// Sent counts a frame.
func (h *host) Sent(int) {
	h.stats.sent++
	h.shared.metrics.PacketsSent.Add(1)
	h.out.countLocked()
}

// Left gives back what a waiting request counts for.
func (h *host) Left(large, size int64) {
	if large > 0 {
		h.shared.large.bytes.Add(-large)
	}
	h.shared.throttler.leave(h.crowd, size, h.line.Waiting.Len() == 0)
	if h.line.draining {
		h.line.changed.Broadcast()
	}
}

func (h *host) Groups() []string             { return Groups(h.identity.credentials.Load()) }
func (h *host) Present() *auth.Credentials   { return h.identity.present() }
func (h *host) Held(ids []jute.ID) []jute.ID { return h.identity.held(ids) }
