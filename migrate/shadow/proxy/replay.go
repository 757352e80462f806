package proxy

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/shadow"
)

// Replayed counts what a replay has done.
type Replayed struct {
	Connections, Requests int
	Hidden                int // requests that were left out, since their secret is not in the record
	Broken                int // connections that ended before the record of them did
}

// Replay asks the servers at addr, a Relay's, what a record has, in the same order: each
// request after the answers that came before it, on all connections. It does not keep the
// times between them. The servers must begin with the data that those of the record began with.
func Replay(ctx context.Context, from io.Reader, addr string) (Replayed, error) {
	r := replay{ctx: ctx, addr: addr, conns: map[shadow.ConnID]*player{}, sessions: map[jute.SessionID]jute.ConnectResponse{}}
	defer func() {
		for _, p := range r.conns {
			p.Close()
		}
	}()
	err := readSteps(from, r.step)
	return r.done, err
}

type replay struct {
	ctx      context.Context
	addr     string
	conns    map[shadow.ConnID]*player
	sessions map[jute.SessionID]jute.ConnectResponse // those of the replay, by the record's ids
	done     Replayed
}

// player is a connection of a replay.
type player struct {
	net.Conn
	in       *bufio.Reader
	connects bool
	session  bool
	lastZxid int64
	skipped  []int32 // xids of requests that were left out
}

func (r *replay) step(s step) error {
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	p := r.conns[s.Conn]
	if s.Do == doOpen {
		var d net.Dialer
		c, err := d.DialContext(r.ctx, "tcp", r.addr)
		if err != nil {
			return err
		}
		r.conns[s.Conn] = &player{Conn: c, in: bufio.NewReader(c)}
		r.done.Connections++
		return nil
	}
	if p == nil {
		return nil // it has broken
	}
	const patience = time.Minute
	p.SetDeadline(time.Now().Add(patience)) // then the next call fails
	var err error
	switch s.Do {
	case doRequest:
		err = r.request(p, s)
	case doAnswer:
		err = r.answer(p, s)
	case doClose:
		p.Close()
		delete(r.conns, s.Conn)
	default:
		return fmt.Errorf("a step of the record is %q", s.Do)
	}
	if err != nil {
		p.Close()
		delete(r.conns, s.Conn)
		r.done.Broken++
	}
	return nil
}

func (r *replay) request(p *player, s step) error {
	frame := slices.Clone(s.Frame)
	switch {
	case !p.connects:
		p.connects = true
		if s.Hidden { // it was no connect request
			return io.ErrUnexpectedEOF
		}
		frame = r.connect(frame)
	case s.Hidden:
		if len(frame) >= 8 {
			p.skipped = append(p.skipped, int32(binary.BigEndian.Uint32(frame)))
		}
		r.done.Hidden++
		return nil
	case len(frame) >= 16:
		if op := jute.OpCode(binary.BigEndian.Uint32(frame[4:])); op == jute.OpSetWatches || op == jute.OpSetWatches2 {
			binary.BigEndian.PutUint64(frame[8:], uint64(p.lastZxid))
		}
	}
	r.done.Requests++
	_, err := p.Write(jute.AppendBuffer(nil, frame))
	return err
}

// connect returns a connect request for the session of the replay that the record's matches.
func (r *replay) connect(frame []byte) []byte {
	var c jute.ConnectRequest
	d := jute.NewDecoder(frame)
	if c.Decode(&d); d.Err() != nil {
		return frame
	}
	c.LastZxidSeen = 0 // the zxids are others
	if live, ok := r.sessions[c.SessionID]; ok {
		c.SessionID, c.Password = live.SessionID, live.Password
	}
	return c.Append(nil)
}

// answer waits for an answer where the record has one.
func (r *replay) answer(p *player, s step) error {
	var recorded jute.ReplyHeader
	d := jute.NewDecoder(s.Frame)
	if p.session {
		recorded.Decode(&d)
		if recorded.Xid == jute.XidNotification {
			return nil
		}
		if i := slices.Index(p.skipped, recorded.Xid); i >= 0 {
			p.skipped = slices.Delete(p.skipped, i, i+1)
			return nil
		}
	}
	for {
		frame, err := jute.ReadFrame(p.in, shadow.MaxFrame)
		if err != nil {
			return err
		}
		live := jute.NewDecoder(frame)
		if !p.session {
			var was, is jute.ConnectResponse
			was.Decode(&d)
			is.Decode(&live)
			r.sessions[was.SessionID] = is
			p.session = true
			return nil
		}
		var h jute.ReplyHeader
		h.Decode(&live)
		p.lastZxid = max(p.lastZxid, int64(h.Zxid))
		if h.Xid != jute.XidNotification {
			return live.Err()
		}
	}
}
