package bench

import (
	"fmt"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// sender runs jobs, and pings between them.
func (c *conn) sender() {
	for {
		var err error
		select {
		case j := <-c.jobs:
			if err = c.send(j); err == nil {
				close(j.done)
			}
		case <-c.ticker.C:
			err = c.ping()
		case <-c.done:
			return
		}
		if err != nil {
			c.stop(err)
			return
		}
	}
}

// send writes the requests of a job until its end, then waits for the replies.
func (c *conn) send(j *job) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	now := c.clock.now()
	c.turn.sent = 0
	c.turn.pace = pacer{interval: j.interval, next: max(j.start, now), freed: now}
	c.job.Store(j)
	for ; !j.over(c.turn.sent, now); now = c.clock.now() {
		n, wait := c.allowed(j, now)
		var err error
		switch {
		case len(c.turn.out) > 0:
			err = c.flush()
		case n > 0:
			c.fill(j, n, now)
			err = c.flush()
		case wait > 0:
			timer.Reset(wait)
			err = c.wait(j.stop, timer.C)
		default:
			err = c.wait(j.stop, nil)
			c.turn.pace.freed = c.clock.now()
		}
		if err != nil {
			return err
		}
	}
	return c.drain()
}

// allowed returns how many requests may be sent now. If that is 0 although the window has
// room, it also returns how long to wait for the next one to be due.
func (c *conn) allowed(j *job, now int64) (n int64, wait time.Duration) {
	n = int64(j.window) - c.outstanding()
	if j.count > 0 {
		n = min(n, j.count-c.turn.sent)
	}
	if n <= 0 {
		return 0, 0
	}
	if due := c.turn.pace.due(now); due < n {
		return due, time.Duration(c.turn.pace.next - now)
	}
	return n, 0
}

// refill sends more of the current job if the reader can do that without blocking, and
// reports whether the sender has nothing to do.
func (c *conn) refill(now int64) bool {
	if c.turn.raw == nil || !c.turn.TryLock() {
		return false
	}
	defer c.turn.Unlock()
	j := c.job.Load()
	if j == nil || j.interval > 0 || len(c.turn.out) > 0 || j.over(c.turn.sent, now) {
		return false
	}
	for len(c.turn.out) == 0 {
		n, _ := c.allowed(j, now)
		if n <= 0 {
			return true
		}
		c.fill(j, n, now)
		c.turn.out = c.turn.raw.write(c.turn.out)
		c.turn.wrote = true
	}
	return false
}

// fill puts up to n requests of j into the out buffer and the ring.
func (c *conn) fill(j *job, n, now int64) {
	t := &c.turn
	head := c.head.Load()
	end := head + uint64(n)
	for ; head < end && len(t.out) < batchBytes; head++ {
		if t.xid++; t.xid <= 0 {
			t.xid = 1
		}
		p := &c.ring[head%uint64(len(c.ring))]
		p.xid, p.sent = t.xid, t.pace.take(now)
		start := len(t.out)
		t.out = j.src.next(beginFrame(t.out, t.xid), p)
		endFrame(t.out, start, p.op)
		t.sent++
	}
	c.head.Store(head)
}

func (c *conn) outstanding() int64 { return int64(c.head.Load() - c.tail.Load()) }

// flush writes the out buffer, blocking if the socket is full.
func (c *conn) flush() error {
	_, err := c.nc.Write(c.turn.out)
	c.turn.out = c.turn.out[:0]
	c.turn.wrote = true
	if err != nil {
		return c.cause(fmt.Errorf("%w: write: %w", ErrLost, err))
	}
	if c.turn.pace.interval > 0 {
		c.turn.pace.freed = c.clock.now()
	}
	return nil
}

// drain waits until each request is written and has its reply.
func (c *conn) drain() error {
	for c.outstanding() > 0 {
		err := c.flushRest()
		if err == nil {
			err = c.wait(nil, nil)
		}
		if err != nil {
			return err
		}
	}
	c.job.Store(nil)
	return nil
}

// flushRest writes what the reader could not.
func (c *conn) flushRest() error {
	if len(c.turn.out) == 0 {
		return nil
	}
	return c.flush()
}

// wait gives up the turn until the bell, until at, or until stop. It pings the
// server meanwhile.
func (c *conn) wait(stop <-chan struct{}, at <-chan time.Time) error {
	c.turn.Unlock()
	defer c.turn.Lock()
	select {
	case <-c.bell:
	case <-at:
	case <-stop:
	case <-c.done:
		return c.err
	case <-c.ticker.C:
		return c.ping()
	}
	return nil
}

// ping keeps the session alive if nothing else did since the last tick.
func (c *conn) ping() error {
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.turn.wrote {
		c.turn.wrote = false
		return nil
	}
	start := len(c.turn.out)
	c.turn.out = beginFrame(c.turn.out, jute.XidPing)
	endFrame(c.turn.out, start, jute.OpPing)
	err := c.flush()
	c.turn.wrote = false
	return err
}

// wake makes the sender act, now or as soon as it waits.
func (c *conn) wake() {
	select {
	case c.bell <- struct{}{}:
	default:
	}
}
