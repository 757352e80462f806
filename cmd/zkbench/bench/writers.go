package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/internal/frames"
	"github.com/zkd-project/zkd/jute"
)

const (
	// reconnectDelay is the pause after a lost connection and after a failed attempt. It is
	// the same for all servers, and so short that the servers cause the gaps, not the
	// clients.
	reconnectDelay = 10 * time.Millisecond
	// writerPatience is how long a writer waits for a reply and for the answer
	// to a connect request, before it tries the next server.
	writerPatience = time.Second
)

// Writers is a load of sets that survives the loss of servers. Each connection has a session,
// a node and at most one set under way, and the sets are due at a fixed rate, whatever the
// servers do. A connection that ends, or leaves a request without reply for a second, is
// replaced after 10 ms by one to the next server, which resumes the session.
//
// Every reply must show a later version than the one before: a lower one means that an
// acknowledged write was lost.
type Writers struct {
	run     *run
	tracker *tracker
	writers []writer
	stop    context.CancelFunc
	wg      sync.WaitGroup
	once    sync.Once
	err     error // of Stop
}

// StartWriters starts the load of cfg on target. It uses Connections, ValueSize, Rate (0 for
// as many as possible), Count and SessionTimeout. The load runs until Stop is called or ctx
// ends.
func StartWriters(ctx context.Context, target Target, cfg Config) (*Writers, error) {
	cfg.Workload = Outages
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	w := &Writers{run: newRun(ctx, target, cfg)}
	return w, w.start()
}

// start makes the nodes and launches the writers.
func (w *Writers) start() error {
	r := w.run
	err := w.asAdmin(func() error {
		return errors.Join(r.mkdir(r.root), r.mkdirs(r.cfg.Connections, r.dirs()))
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.ctx)
	w.stop = cancel
	w.tracker = newTracker(r.clock.now())
	w.writers = make([]writer, r.cfg.Connections)
	var taken atomic.Int64
	for i := range w.writers {
		w.writers[i] = writer{run: r, tracker: w.tracker, number: i, server: i, taken: &taken}
		w.wg.Go(func() { w.writers[i].write(ctx) })
	}
	return nil
}

// asAdmin calls f with a connection to the first server that takes one.
func (w *Writers) asAdmin(f func() error) (err error) {
	r := w.run
	ctx := r.ctx
	r.ctx = context.WithoutCancel(ctx) // what was made is removed in any case
	defer func() { r.ctx = ctx }()
	for i := range r.target.Addrs {
		if r.admin, err = r.open(i, r.options(64)); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(f(), r.admin.close())
}

// Mark resets the gaps. An open gap stays, and counts from its beginning.
func (w *Writers) Mark() { w.tracker.forget(w.run.clock.now()) }

// AwaitSteady returns the longest gap since Mark, once writes succeed and no longer gap has
// come for the time settle. The error is ctx's.
func (w *Writers) AwaitSteady(ctx context.Context, settle time.Duration) (Gap, error) {
	pause := 100 * time.Millisecond
	if rate := w.run.cfg.Rate; rate > 0 {
		pause = max(pause, time.Duration(10/rate*1e9))
	}
	tick := time.NewTicker(settle / 20)
	defer tick.Stop()
	for {
		if w.tracker.steady(w.run.clock.now(), settle, pause) {
			o := w.tracker.snapshot()
			return o.Longest(), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return Gap{}, fmt.Errorf("wait for writes to go on: %w", context.Cause(ctx))
		}
	}
}

// Stop ends the load, checks that no acknowledged write is missing, removes the nodes, and
// returns the results since Mark. A wrong reply is an error that wraps ErrWrong.
func (w *Writers) Stop() (Outage, error) {
	w.once.Do(func() {
		w.stop()
		w.wg.Wait()
		w.err = w.asAdmin(func() error { return errors.Join(w.checkLast(), w.run.cleanup()) })
		if t := w.tracker; t.wrong > 0 {
			w.err = errors.Join(fmt.Errorf("%d %w, the first: %w", t.wrong, ErrWrong, t.err), w.err)
		}
	})
	return w.tracker.snapshot(), w.err
}

// checkLast compares each node with its writer's state.
func (w *Writers) checkLast() error {
	r := w.run
	if _, err := r.admin.call(jute.OpSync, jute.AppendString(nil, r.root)); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	for i := range w.writers {
		body, err := r.admin.call(jute.OpExists, append(jute.AppendString(nil, r.dir(i)), 0))
		if err != nil {
			return fmt.Errorf("exists %s: %w", r.dir(i), err)
		}
		if err := w.writers[i].judge(body, w.writers[i].acked); err != nil {
			w.tracker.fault(fmt.Errorf("at the end: %w", err))
		}
	}
	return nil
}

// writer sets one node repeatedly. One goroutine owns it.
type writer struct {
	run     *run
	tracker *tracker
	number  int // of the writer and its node
	server  int // of the next connection
	taken   *atomic.Int64

	session *session // nil before the first
	nc      net.Conn // nil: not connected
	in      *frames.Reader
	out     []byte
	xid     int32
	zxid    int64 // last one seen
	sent    int32 // sets that may have been carried out
	acked   int32 // version that the last reply showed
	due     int64 // clock time of the next set
}

// write works until ctx ends or all sets are taken.
func (w *writer) write(ctx context.Context) {
	defer w.leave()
	w.due = w.run.clock.now() + w.interval()*int64(w.number)/int64(w.run.cfg.Connections)
	for ctx.Err() == nil {
		if w.nc == nil && !w.connect(ctx) {
			w.pause(ctx, reconnectDelay)
			continue
		}
		w.pause(ctx, time.Duration(w.due-w.run.clock.now()))
		w.advance()
		if n := w.run.cfg.Count; ctx.Err() != nil || n > 0 && w.taken.Add(1) > n {
			return
		}
		if err := w.set(); err != nil {
			w.drop()
			w.pause(ctx, reconnectDelay)
		}
	}
}

// interval is the time between two sets of one writer, in ns.
func (w *writer) interval() int64 {
	c := &w.run.cfg
	if c.Rate == 0 {
		return 0
	}
	return int64(float64(c.Connections) / c.Rate * 1e9)
}

// advance determines when the next set is due. Sets that could not be sent in time are
// omitted, because they would come as a burst.
func (w *writer) advance() {
	every, now := w.interval(), w.run.clock.now()
	w.due += every
	if every > 0 && w.due < now {
		w.due += (now - w.due) / every * every
	}
}

// pause waits for d, or until ctx ends.
func (w *writer) pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// connect tries the next server and reports whether there is a session.
func (w *writer) connect(ctx context.Context) bool {
	h := hello{timeout: w.run.cfg.SessionTimeout, patience: writerPatience, resume: w.session, zxid: w.zxid, security: w.run.target.Security}
	s, err := open(ctx, w.run.target.addr(w.server), h)
	w.server++
	if err != nil {
		if errors.Is(err, jute.ErrSessionExpired) {
			w.session = nil
			w.tracker.count(&w.tracker.outage.Expired)
		}
		w.tracker.count(&w.tracker.outage.Attempts)
		return false
	}
	if w.session != nil {
		w.tracker.count(&w.tracker.outage.Reconnects)
	}
	w.session, w.nc = &s, s.nc
	w.in = newFrames(s.nc, 1024)
	return true
}

// drop ends the connection and keeps the session.
func (w *writer) drop() {
	if w.nc != nil {
		w.nc.Close()
		w.nc = nil
	}
}

// set sends one set and handles its reply. After an error the connection is useless.
func (w *writer) set() error {
	w.xid++
	w.sent++
	b := w.run.values.append(appendPath(beginFrame(w.out[:0], w.xid), w.run.dirs(), int64(w.number)), int64(w.number), w.sent)
	b = jute.AppendInt32(b, int32(-1))
	endFrame(b, 0, jute.OpSetData)
	w.out = b
	began := w.run.clock.now()
	code, body, err := w.exchange()
	switch {
	case err != nil:
		w.tracker.count(&w.tracker.outage.Unknown)
		return err
	case code == jute.ErrNoNode:
		w.tracker.fault(fmt.Errorf("set %s: %w", w.run.dir(w.number), code))
		return code
	case code != 0:
		w.tracker.count(&w.tracker.outage.Refused)
		return code
	}
	if err := w.judge(body, w.acked+1); err != nil {
		w.tracker.fault(err)
		return err
	}
	w.acked = stat(body).version()
	w.tracker.wrote(began, w.run.clock.now())
	return nil
}

// exchange writes what is in out and reads the reply to it.
func (w *writer) exchange() (jute.Code, []byte, error) {
	if err := w.nc.SetDeadline(time.Now().Add(writerPatience)); err != nil {
		return 0, nil, err
	}
	if _, err := w.nc.Write(w.out); err != nil {
		return 0, nil, err
	}
	frame, err := nextFrame(w.in)
	if err != nil {
		return 0, nil, err
	}
	if len(frame) < replyHeader || int32(binary.BigEndian.Uint32(frame)) != w.xid {
		err := fmt.Errorf("%w: reply %x, want xid %d", ErrProtocol, frame, w.xid)
		w.tracker.fault(err)
		return 0, nil, err
	}
	w.zxid = max(w.zxid, int64(binary.BigEndian.Uint64(frame[4:])))
	return jute.Code(binary.BigEndian.Uint32(frame[12:])), frame[replyHeader:], nil
}

// judge checks that a Stat shows at least the given version, and none that was not sent.
func (w *writer) judge(body []byte, least int32) error {
	if len(body) != statSize {
		return fmt.Errorf("set %s: stat has %d bytes, want %d", w.run.dir(w.number), len(body), statSize)
	}
	if v := stat(body).version(); v < least || v > w.sent {
		return fmt.Errorf("set %s: version is %d, want %d at least, after what was acknowledged, and %d at most, as sent",
			w.run.dir(w.number), v, least, w.sent)
	}
	return nil
}

// leave closes the session, so that it does not stay on the servers until it
// expires.
func (w *writer) leave() {
	if w.nc == nil {
		return
	}
	defer w.nc.Close()
	w.xid++
	w.out = beginFrame(w.out[:0], w.xid)
	endFrame(w.out, 0, jute.OpCloseSession)
	_, _, _ = w.exchange() // what fails here expires
}

// outage runs Writers for the duration of the run.
func (r *run) outage() error {
	w := &Writers{run: r}
	if err := w.start(); err != nil {
		return err
	}
	r.beginMeasuring()
	m, err := startMeter(r.clock, r.target.Pids)
	if err == nil {
		w.wait()
	}
	o, stopErr := w.Stop()
	t := w.tracker
	r.wrong(t.wrong, t.err)
	if errors.Is(stopErr, ErrWrong) {
		stopErr = nil // Run says so itself
	}
	if err = errors.Join(err, stopErr); err != nil {
		return err
	}
	r.result.Outage = &o
	if _, err := processUsage(m.pids); err != nil {
		m.pids = nil // a process that was killed took its figures with it
	}
	return m.finish(&r.result, &span{ops: t.ops, last: t.last, latency: t.latency})
}

// wait returns after Config.Duration, after Config.Count sets, or when the run
// is cancelled.
func (w *Writers) wait() {
	r := w.run
	if r.cfg.Count > 0 {
		w.wg.Wait()
		return
	}
	r.sleepUntil(w.tracker.began + int64(r.cfg.Duration))
}
