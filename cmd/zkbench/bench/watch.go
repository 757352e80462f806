package bench

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// fanout repeats rounds: every watcher reads the node and sets a watch on it, the node is
// set, and every watcher gets the event.
type fanout struct {
	r      *run
	name   namer // the node is number 0
	round  int32 // version of the node; only Run's goroutine changes it
	set    atomic.Int64
	left   atomic.Int64 // watchers not notified yet
	all    chan int64   // clock time at which the last one was
	heard  []int64      // when each watcher's last set began; written by its reader
	events struct {
		sync.Mutex
		*span
	}
	extra atomic.Int64 // unexpected events
	arms  []armed
}

// armed is the source of one watcher's reads.
type armed struct {
	f       *fanout
	version int32 // that the read must show
}

func (s *armed) next(b []byte, p *pending) []byte {
	p.op = jute.OpGetData
	return append(appendPath(b, s.f.name, 0), 1)
}

func (s *armed) check(p *pending, code jute.Code, body []byte) error {
	k := keyed{name: s.f.name, values: s.f.r.values, seen: []int32{s.version}}
	return k.check(p, code, body)
}

// watch measures rounds: an operation lasts from the write of the set until
// the last event has arrived.
func (r *run) watch() error {
	f, err := r.newFanout()
	if err != nil {
		return err
	}
	f.measureEvents()
	r.begin(warmingUp, r.cfg.Warmup, 0)
	if err := f.rounds(newSpan(), 0, r.clock.now()+int64(r.cfg.Warmup)); err != nil {
		return err
	}
	f.measureEvents()
	r.begin(measuring, r.cfg.Duration, 0)
	m, err := startMeter(r.clock, r.target.Pids)
	if err != nil {
		return err
	}
	sum := newSpan()
	err = f.rounds(sum, r.cfg.Count, m.began+int64(r.cfg.Duration))
	r.result.Notifications = f.measureEvents()
	if n := f.extra.Load(); n > 0 {
		r.wrong(n, fmt.Errorf("watch on %s: an event more than watches", r.dir(0)))
	}
	return errors.Join(err, m.finish(&r.result, sum))
}

// newFanout creates the node and connects the watchers.
func (r *run) newFanout() (*fanout, error) {
	n := r.cfg.Connections
	f := &fanout{r: r, name: r.dirs(), all: make(chan int64, 1), arms: make([]armed, n), heard: make([]int64, n)}
	create := appendCreate(nil, f.name, 0, jute.ModePersistent, r.values)
	if _, err := r.admin.call(jute.OpCreate, create); err != nil {
		return nil, fmt.Errorf("create %s: %w", r.dir(0), err)
	}
	for i := range f.arms {
		f.arms[i].f = f
	}
	return f, r.connect(n, func(i int) connOptions {
		o := r.options(1)
		o.notify = func(now int64, event []byte) error { return f.event(i, now, event) }
		return o
	})
}

// measureEvents returns the latency of the events since the last call.
func (f *fanout) measureEvents() *Latency {
	f.events.Lock()
	defer f.events.Unlock()
	old := f.events.span
	f.events.span = newSpan()
	if old == nil {
		return nil
	}
	return summarize(old.latency)
}

// rounds runs until count rounds are done, or if count is 0, until the
// deadline.
func (f *fanout) rounds(s *span, count, deadline int64) error {
	for n := int64(0); f.r.ctx.Err() == nil; n++ {
		if count > 0 && n >= count || count == 0 && f.r.clock.now() >= deadline {
			return nil
		}
		if err := f.once(s); err != nil {
			return err
		}
	}
	return nil
}

func (f *fanout) once(s *span) error {
	jobs, err := f.r.each(func(i int) *job {
		f.arms[i].version = f.round
		return &job{src: &f.arms[i], count: 1, window: 1}
	})
	f.r.tally(jobs)
	if err != nil {
		return err
	}
	f.round++
	f.left.Store(int64(len(f.r.conns)))
	body := jute.AppendInt32(f.r.values.append(appendPath(nil, f.name, 0), 0, f.round), int32(-1))
	began := f.r.clock.now()
	f.set.Store(began)
	if _, err := f.r.admin.call(jute.OpSetData, body); err != nil {
		return fmt.Errorf("set %s: %w", f.r.dir(0), err)
	}
	t := time.NewTimer(f.r.cfg.SessionTimeout)
	defer t.Stop()
	select {
	case last := <-f.all:
		s.record(began, last)
		return nil
	case <-t.C:
		return fmt.Errorf("%d of %d watchers have heard nothing of version %d after %v: %w",
			f.left.Load(), len(f.r.conns), f.round, f.r.cfg.SessionTimeout, f.lost())
	}
}

// lost returns why a watcher's connection ended, if one did.
func (f *fanout) lost() error {
	for _, c := range f.r.conns {
		if err := c.cause(nil); err != nil {
			return err
		}
	}
	return errors.New("all are connected")
}

// event takes the event of watcher i. It runs on that watcher's reader.
func (f *fanout) event(i int, now int64, event []byte) error {
	d := jute.NewAliasDecoder(event)
	kind, state, path := jute.EventType(d.Int32()), jute.KeeperState(d.Int32()), d.String()
	if d.Err() != nil {
		return fmt.Errorf("%w: decode watch event: %w", ErrProtocol, d.Err())
	}
	if kind != jute.EventDataChanged || state != jute.StateSyncConnected || path != f.r.dir(0) {
		return fmt.Errorf("%w: watch event %s, state %d, on %q; want %s on %s",
			ErrProtocol, kind, state, path, jute.EventDataChanged, f.r.dir(0))
	}
	set := f.set.Load()
	if f.heard[i] == set {
		f.extra.Add(1)
		return nil
	}
	f.heard[i] = set
	f.events.Lock()
	f.events.record(set, now)
	f.events.Unlock()
	if f.left.Add(-1) == 0 {
		f.all <- now
	}
	return nil
}
