package zktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/jute"
)

// session is what is needed to take a session over.
type session struct {
	password []byte
	last     *door // where it was last seen
}

// patience is the limit for what should take milliseconds, and takes longer on a busy machine.
const patience = 2 * time.Minute

// ExpireSession makes the servers end a session that has come through the proxy, and then
// breaks its connections. To the client this looks like an expiry: its connection breaks, and
// the next server that it tries does not know the session. When ExpireSession returns, the
// ephemeral nodes are gone. Until then new connections through the proxy wait, so that the
// client does not return to the session that is ending.
//
// ExpireSession takes the session over on a separate connection, with the password that the
// server gave the client, and closes it there. So it works with any server, but not over TLS,
// where the proxy does not see the password.
func (p *Proxy) ExpireSession(id client.SessionID) {
	p.hub.t.Helper()
	p.hub.holdConnects()
	defer p.hub.releaseConnects()
	if err := p.expire(id); err != nil {
		p.hub.t.Errorf("zktest: expire session %v: %v", id, err)
	}
}

// holdConnects holds connect requests back until releaseConnects.
func (h *hub) holdConnects() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.expiring++; h.expiring == 1 {
		h.expired = make(chan struct{})
	}
}

func (h *hub) releaseConnects() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.expiring--; h.expiring == 0 {
		close(h.expired)
		h.expired = nil
	}
}

func (p *Proxy) expire(id jute.SessionID) error {
	ctx, cancel := context.WithTimeout(p.hub.ctx, patience)
	defer cancel()
	p.hub.mu.Lock()
	s := p.hub.sessions[id]
	var targets []string
	if s != nil {
		targets = append(targets, s.last.target)
	}
	for _, d := range p.doors {
		targets = append(targets, d.target)
	}
	p.hub.mu.Unlock()
	if s == nil {
		return fmt.Errorf("it has not come through this proxy")
	}
	for {
		err := endAtAny(ctx, targets, id, s.password)
		if err == nil {
			p.CutSession(id)
			return nil
		}
		if pause.For(ctx, betweenTries) != nil { // perhaps there is no leader at the moment
			return err
		}
	}
}

// betweenTries is the pause when no server can end a session.
const betweenTries = 20 * time.Millisecond

// endAtAny closes a session at the first server that can do it.
func endAtAny(ctx context.Context, servers []string, id jute.SessionID, password []byte) error {
	err := errors.New("no server is up")
	for _, server := range servers {
		if server == "" {
			continue
		}
		if err = end(ctx, server, id, password); err == nil {
			return nil
		}
	}
	return err
}

// end closes a session at a server, and makes sure that it is closed: its client may take it
// back at any moment, if it has another way to the servers. A server that closes the
// connection every time does not serve.
func end(ctx context.Context, server string, id jute.SessionID, password []byte) error {
	const most = 100
	for hangups := 0; ; {
		over, err := closeSession(ctx, server, id, password)
		if hungUp := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET); hungUp && hangups < most && ctx.Err() == nil {
			hangups++
			continue
		}
		if over || err != nil {
			return err
		}
	}
}

// closeSession takes a session over and closes it. It returns true if the server no longer
// knows the session. The error is io.EOF or a reset connection if the server closes the
// connection.
func closeSession(ctx context.Context, server string, id jute.SessionID, password []byte) (over bool, err error) {
	var dialer net.Dialer
	nc, err := dialer.DialContext(ctx, "tcp", server)
	if err != nil {
		return false, err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	connect := jute.ConnectRequest{TimeoutMs: 10_000, SessionID: id, Password: password, HasReadOnly: true}
	b, mark := jute.BeginFrame(nil)
	b = jute.EndFrame(connect.Append(b), mark)
	b, mark = jute.BeginFrame(b)
	header := jute.RequestHeader{Xid: 1, Type: jute.OpCloseSession}
	b = jute.EndFrame(header.Append(b), mark)
	if _, err := nc.Write(b); err != nil {
		return false, err
	}
	frame, err := jute.ReadFrame(nc, maxFrame)
	if err != nil {
		return false, fmt.Errorf("connect response: %w", err)
	}
	var r jute.ConnectResponse
	d := jute.NewDecoder(frame)
	if r.Decode(&d); d.Err() != nil || r.SessionID == 0 {
		return true, nil
	}
	for {
		frame, err := jute.ReadFrame(nc, maxFrame)
		if err != nil {
			return false, nil // the client took it back: try again
		}
		var h jute.ReplyHeader
		d := jute.NewDecoder(frame)
		if h.Decode(&d); d.Err() == nil && h.Xid == 1 {
			return false, nil
		}
	}
}
