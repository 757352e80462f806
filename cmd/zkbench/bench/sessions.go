package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/internal/frames"
	"github.com/zkd-project/zkd/jute"
)

// visitor repeatedly opens a session and closes it. One goroutine owns it.
type visitor struct {
	addr       string
	timeout    time.Duration
	ephemerals *creates // nil: none
	n          int      // ephemerals of each session
	out        []byte
	in         *frames.Reader
	clock      clock
	span       *span
}

// visit is one operation: connect, create the ephemerals, close the session, and wait until
// the server closes the connection.
func (v *visitor) visit(r *run) error {
	began := v.clock.now()
	s, err := open(r.ctx, v.addr, hello{timeout: v.timeout, security: r.target.Security})
	if err != nil {
		return err
	}
	defer s.nc.Close()
	if err := v.leave(s); err != nil {
		return fmt.Errorf("session %s: %w", s.id, err)
	}
	if v.span != nil {
		v.span.record(began, v.clock.now())
	}
	return nil
}

// leave sends all requests of the session at once and checks their replies.
func (v *visitor) leave(s session) error {
	if err := s.nc.SetDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	sent := make([]pending, v.n+1)
	v.out = v.out[:0]
	for i := range sent {
		p, start := &sent[i], len(v.out)
		p.xid = int32(i + 1)
		v.out = beginFrame(v.out, p.xid)
		if p.op = jute.OpCloseSession; i < v.n {
			v.out = v.ephemerals.next(v.out, p)
		}
		endFrame(v.out, start, p.op)
	}
	if _, err := s.nc.Write(v.out); err != nil {
		return err
	}
	v.in = newFrames(s.nc, 1024)
	for i := range sent {
		if err := v.reply(&sent[i]); err != nil {
			return err
		}
	}
	// The end of the stream: the server closes first, and has the TIME_WAIT.
	if frame, err := nextFrame(v.in); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %x and %v after the reply to closeSession, want end of stream", ErrProtocol, frame, err)
	}
	return nil
}

func (v *visitor) reply(p *pending) error {
	frame, err := nextFrame(v.in)
	if err != nil {
		return fmt.Errorf("read reply to %s: %w", p.op, err)
	}
	if len(frame) < replyHeader || int32(binary.BigEndian.Uint32(frame)) != p.xid {
		return fmt.Errorf("%w: reply %x to %s, want xid %d", ErrProtocol, frame, p.op, p.xid)
	}
	code, body := jute.Code(binary.BigEndian.Uint32(frame[12:])), frame[replyHeader:]
	switch {
	case p.op == jute.OpCreate:
		return v.ephemerals.check(p, code, body)
	case code != 0:
		return fmt.Errorf("%s: %w", p.op, code)
	case len(body) != 0:
		return fmt.Errorf("%s: reply has a body of %d bytes, want none", p.op, len(body))
	}
	return nil
}

// sessions measures the opening and closing of sessions, Config.Connections at
// a time.
func (r *run) sessions() error {
	if err := r.mkdirs(r.cfg.Connections, r.dirs()); err != nil {
		return err
	}
	visitors := make([]visitor, r.cfg.Connections)
	for i := range visitors {
		visitors[i] = visitor{
			addr: r.target.addr(i), timeout: r.cfg.SessionTimeout, clock: r.clock, n: r.cfg.Ephemerals,
			ephemerals: &creates{name: inDir(r.dir(i)), mode: jute.ModeEphemeral, values: r.values},
		}
	}
	if r.cfg.Warmup > 0 {
		r.begin(warmingUp, r.cfg.Warmup, 0)
		if err := r.visits(visitors, 0, r.clock.now()+int64(r.cfg.Warmup)); err != nil {
			return err
		}
	}
	for i := range visitors {
		visitors[i].span = newSpan()
	}
	r.beginMeasuring()
	m, err := startMeter(r.clock, r.target.Pids)
	if err != nil {
		return err
	}
	err = r.visits(visitors, r.cfg.Count, m.began+int64(r.cfg.Duration))
	sum := newSpan()
	for i := range visitors {
		sum.add(visitors[i].span)
	}
	return errors.Join(err, m.finish(&r.result, sum))
}

// visits lets all visitors work until count sessions were opened, or if count
// is 0, until the deadline. The rate limit holds for all of them together.
func (r *run) visits(visitors []visitor, count, deadline int64) error {
	var taken atomic.Int64
	began := r.clock.now()
	return parallel(len(visitors), len(visitors), func(i int) error {
		for r.ctx.Err() == nil {
			n := taken.Add(1) - 1
			if count > 0 && n >= count || count == 0 && r.clock.now() >= deadline {
				break
			}
			if r.cfg.Rate > 0 {
				r.sleepUntil(began + int64(float64(n)/r.cfg.Rate*1e9))
			}
			if err := visitors[i].visit(r); err != nil && r.ctx.Err() == nil {
				return err
			}
			r.replies.Add(1)
		}
		return nil
	})
}

// sleepUntil returns at a clock time, or when the run is cancelled.
func (r *run) sleepUntil(at int64) {
	d := time.Duration(at - r.clock.now())
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.ctx.Done():
	}
}

// idle opens sessions and keeps them alive by pings only. Its operations are the opened
// sessions.
func (r *run) idle() error {
	m, err := startMeter(r.clock, r.target.Pids)
	if err != nil {
		return err
	}
	err = r.connect(r.cfg.Connections, func(int) connOptions { return r.options(1) })
	sum := newSpan()
	for _, c := range r.conns {
		sum.record(c.began, c.ready)
	}
	if err := errors.Join(err, m.finish(&r.result, sum)); err != nil {
		return err
	}
	return r.hold()
}

// hold waits for Config.Duration, then checks that no session was lost.
func (r *run) hold() error {
	r.begin(holding, r.cfg.Duration, 0)
	m, err := startMeter(r.clock, r.target.Pids)
	if err != nil {
		return err
	}
	r.sleepUntil(m.began + int64(r.cfg.Duration))
	for _, c := range r.conns {
		if err := c.cause(nil); err != nil {
			return err
		}
	}
	after, err := processUsage(r.target.Pids)
	if err != nil {
		return err
	}
	r.result.Idle = &Hold{
		Seconds:    time.Duration(r.clock.now() - m.began).Seconds(),
		CPUSeconds: (after.cpu - m.server.cpu).Seconds(),
	}
	if r.result.Server != nil {
		r.result.Server.RSSAfter = after.rss
	}
	r.result.growth()
	return nil
}
