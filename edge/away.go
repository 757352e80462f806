package edge

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/away"
)

// Faults of read-only sessions.
var (
	awayForced   = mutant.New("away-forced")   // a client that does not accept a read-only session gets one
	awayUnmarked = mutant.New("away-unmarked") // the client does not learn that its session is read-only
	awayLent     = mutant.New("away-lent")     // it is shown what the edge itself may read
)

// errAway ends the wait for a session: there is a read-only one.
var errAway = errors.New("no server is reached, and the client accepts a read-only session")

// await waits for the session upstream. The error is errAway if the client is to have a read-only session instead.
func (c *conn) await(ctx context.Context, r *client.Relay, q *jute.ConnectRequest) (jute.ConnectResponse, error) {
	accepts := q.ReadOnly
	accepts = accepts || awayForced.Planted()
	if !accepts || len(c.e.o.Stale) == 0 || c.shared == nil {
		return r.WaitConnected(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.shared.m.Absence().Begun, func() {
		k := c.shared.m.Known()
		if !k.Current.IsZero() && q.LastZxidSeen <= k.Zxid {
			cancel(errAway)
		}
	})()
	hello, err := r.WaitConnected(ctx)
	if err != nil && context.Cause(ctx) == errAway {
		err = errAway
	}
	return hello, err
}

// readOnly serves a client by what is known, until there is a server again or that is not shown any longer. The client then connects again.
func (c *conn) readOnly(q *jute.ConnectRequest) error {
	m := c.shared.m
	absence := m.Absence()
	if absence.Begun.Err() == nil {
		return errors.New("there is a server again, or nothing to be shown any more")
	}
	c.e.figures.readOnly.Add(1)
	defer c.e.figures.readOnly.Add(-1)
	defer context.AfterFunc(absence.Over, func() { c.nc.Close() })()
	timeout := time.Duration(max(q.TimeoutMs, 1000)) * time.Millisecond
	hello := jute.ConnectResponse{TimeoutMs: int32(timeout.Milliseconds()), SessionID: q.SessionID, Password: q.Password, ReadOnly: true}
	if awayUnmarked.Planted() {
		hello.ReadOnly = false
	}
	if q.SessionID == 0 { // only this connection has the session
		var id [8]byte
		rand.Read(id[:])
		hello.SessionID = jute.SessionID(binary.BigEndian.Uint64(id[:])>>1 | 1)
		hello.Password = make([]byte, jute.PasswordLen)
		rand.Read(hello.Password)
	}
	s := away.Session{Look: m.SeeLast, Seen: q.LastZxidSeen}
	err := c.serveReadOnly(&s, c.hi(&hello, q), timeout)
	c.e.o.Log.Debug("a read-only session has ended", "client", c.nc.RemoteAddr().String(), "err", err)
	return nil
}

func (c *conn) serveReadOnly(s *away.Session, out []byte, timeout time.Duration) error {
	for ends := false; ; {
		if c.in.Buffered() == 0 || ends || len(out) > 64<<10 {
			c.nc.SetWriteDeadline(time.Now().Add(helloWithin))
			if _, err := c.nc.Write(out); err != nil || ends {
				return err
			}
			out = out[:0]
		}
		c.nc.SetReadDeadline(time.Now().Add(timeout))
		frame, err := c.in.AwaitFrame()
		if err != nil {
			return err
		}
		d := jute.NewDecoder(frame)
		var h jute.RequestHeader
		if h.Decode(&d); d.Err() != nil {
			return fmt.Errorf("request header: %w", d.Err())
		}
		if h.Type == jute.OpAuth && speaks(d.Rest()) {
			return errSpeaks
		}
		reads, refused := s.Reads, s.Refused
		out, ends = s.Answer(out, h, bytes.Clone(d.Rest()))
		c.e.figures.requests.Add(1)
		c.e.figures.replies.Add(1)
		c.e.figures.staleReads.Add(int64(s.Reads - reads))
		c.e.figures.staleRefused.Add(int64(s.Refused - refused))
	}
}

// shown notes what a client was shown, so that the stale subtrees keep up with it.
func (e *Edge) shown(zxid client.Zxid) {
	if len(e.o.Stale) == 0 {
		return
	}
	for old := e.seen.Load(); old < int64(zxid) && !e.seen.CompareAndSwap(old, int64(zxid)); old = e.seen.Load() {
	}
}
