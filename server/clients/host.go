package clients

import (
	"slices"
	"time"

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

func (h *host) Lock()    { h.mu.Lock() }
func (h *host) Unlock()  { h.mu.Unlock() }
func (h *host) Kill()    { h.conn().kill() }
func (h *host) Decided() { close(h.decided) }
func (h *host) Ending()  { h.conn().interruptLocked() }

// Operate answers a drain.
func (h *host) Operate(req *line.Request) { h.clients.serveDrain(h.conn(), req) }

// Sent counts a frame.
func (h *host) Sent(int) {
	h.mu.stats.sent++
	h.clients.metrics.PacketsSent.Add(1)
	h.conn().countOutLocked()
}

// Left gives back what a waiting request counts for.
func (h *host) Left(large, size int64) {
	if large > 0 {
		h.clients.largeBytes.Add(-large)
	}
	h.clients.throttler.leave(size, h.line.Waiting() == 0)
	if h.mu.draining {
		h.drained.Broadcast()
	}
}

// Groups returns what a connection has in common with others: its address and its identities.
func (h *host) Groups() []string { return Groups(h.credentials.Load()) }

// Present returns the credentials without those that have ended. It may be called from any
// goroutine.
func (h *host) Present() *auth.Credentials {
	creds := h.credentials.Load()
	if creds.Until() == 0 {
		return creds
	}
	return creds.At(time.Now().UnixMilli())
}

// Held returns the identities of a request that has waited, without those that have ended
// meanwhile.
func (h *host) Held(ids []jute.ID) []jute.ID {
	if h.credentials.Load().Until() == 0 {
		return ids
	}
	held := h.Present().IDs()
	return slices.DeleteFunc(slices.Clone(ids), func(id jute.ID) bool { return !slices.Contains(held, id) })
}
