package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
)

// ErrWrong is wrapped by the error of a run whose replies were not all right.
// Its Result is valid and counts them.
var ErrWrong = errors.New("wrong replies")

// run is a run under way. Only the goroutine of Run changes it.
type run struct {
	ctx    context.Context
	cfg    Config
	target Target
	clock  clock
	values *values
	root   string
	admin  *conn // makes and deletes the root, outside of the measurement
	conns  []*conn
	result Result

	replies atomic.Int64 // of all connections, for Config.OnPhase
}

// workloads is how each workload runs, after the root node was made.
var workloads = map[Workload]func(*run) error{
	Create:    (*run).create,
	Set:       (*run).keyed,
	Get:       (*run).keyed,
	Mixed:     (*run).keyed,
	Exists:    (*run).keyed,
	Children:  (*run).children,
	Ephemeral: (*run).ephemeral,
	Multi:     (*run).multi,
	Watch:     (*run).watch,
	Sessions:  (*run).sessions,
	Idle:      (*run).idle,
	Load:      (*run).load,
	Outages:   (*run).outage,
}

// Run puts the load of cfg on target, measures it, and removes its nodes. When ctx ends, the
// measurement ends early and is reported as it is; if it had not begun, the error says so. A
// run with wrong replies returns its Result and an error that wraps ErrWrong.
func Run(ctx context.Context, target Target, cfg Config) (Result, error) {
	if err := cfg.validate(); err != nil {
		return Result{}, err
	}
	r := newRun(ctx, target, cfg)
	err := r.run()
	switch {
	case err != nil:
	case r.result.Wrong > 0:
		err = fmt.Errorf("%d %w, the first: %s", r.result.Wrong, ErrWrong, r.result.FirstWrong)
	case r.result.Ops == 0 && ctx.Err() != nil:
		err = fmt.Errorf("stopped before the measurement: %w", context.Cause(ctx))
	}
	return r.result, err
}

// newRun prepares a run with a separate root node.
func newRun(ctx context.Context, target Target, cfg Config) *run {
	var id [4]byte
	rand.Read(id[:])
	return &run{
		ctx: ctx, cfg: cfg, target: target, clock: newClock(),
		values: newValues(cfg.ValueSize, mathrand.New(mathrand.NewPCG(cfg.Seed, 0))),
		root:   fmt.Sprintf("%s/%s%x", target.Base, rootPrefix, id),
		result: Result{
			Workload: cfg.Workload, Servers: target.Addrs, Connections: cfg.Connections,
			Window: cfg.Window, ValueSize: cfg.ValueSize,
		},
	}
}

func (r *run) run() (err error) {
	r.begin(preparing, 0, 0)
	if r.cfg.Workload == Outages {
		return r.outage() // its connections come and go
	}
	if r.admin, err = r.open(0, r.options(64)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.admin.close()) }()
	if err := r.mkdir(r.root); err != nil {
		return err
	}
	if r.cfg.Keep {
		r.result.Root = r.root
	} else {
		defer func() { err = errors.Join(err, r.cleanup()) }()
	}
	defer func() { err = errors.Join(err, r.disconnect()) }()
	return workloads[r.cfg.Workload](r)
}

func (r *run) options(window int) connOptions {
	return connOptions{timeout: r.cfg.SessionTimeout, window: window, clock: r.clock, security: r.target.Security, replies: &r.replies}
}

// open opens a connection that is not one of r.conns.
func (r *run) open(i int, o connOptions) (*conn, error) {
	return openConn(r.ctx, r.target.addr(i), o)
}

// connect opens n connections, at most 64 at a time.
func (r *run) connect(n int, o func(i int) connOptions) error {
	conns := make([]*conn, n)
	err := parallel(n, 64, func(i int) (err error) {
		conns[i], err = r.open(i, o(i))
		return err
	})
	for _, c := range conns {
		if c != nil {
			r.conns = append(r.conns, c)
		}
	}
	return err
}

// disconnect closes the sessions of r.conns.
func (r *run) disconnect() error {
	conns := r.conns
	r.conns = nil
	return parallel(len(conns), 64, func(i int) error { return conns[i].close() })
}

// parallel calls f(0) to f(n-1), at most limit at a time, and returns the
// first error. It starts no more calls after an error.
func parallel(n, limit int, f func(i int) error) error {
	var mu struct {
		sync.Mutex
		next int
		err  error
	}
	take := func(err error) (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if mu.err == nil {
			mu.err = err
		}
		i := mu.next
		mu.next++
		return i, i < n && mu.err == nil
	}
	var wg sync.WaitGroup
	for range min(n, limit) {
		wg.Go(func() {
			var err error
			for i, ok := take(nil); ok; i, ok = take(err) {
				err = f(i)
			}
		})
	}
	wg.Wait()
	return mu.err
}

// each runs one job on each connection, all at once. A connection for which newJob
// returns nil has nothing to do.
func (r *run) each(newJob func(i int) *job) ([]*job, error) {
	var jobs []*job
	var conns []*conn
	for i, c := range r.conns {
		if j := newJob(i); j != nil {
			jobs, conns = append(jobs, j), append(conns, c)
		}
	}
	err := parallel(len(jobs), len(jobs), func(i int) error { return conns[i].do(jobs[i]) })
	return jobs, err
}

// tally adds the outcomes of jobs to the result.
func (r *run) tally(jobs []*job) {
	for _, j := range jobs {
		r.wrong(j.outcome.wrong, j.outcome.err)
	}
}

// wrong adds n wrong replies to the result; err describes the first.
func (r *run) wrong(n int64, err error) {
	r.result.Wrong += n
	if err != nil && r.result.FirstWrong == "" {
		r.result.FirstWrong = err.Error()
	}
}

// prepare runs jobs that are not part of the measurement and must succeed.
func (r *run) prepare(newJob func(i int) *job) error {
	jobs, err := r.each(newJob)
	for _, j := range jobs {
		if err == nil {
			err = j.outcome.err
		}
	}
	return err
}

// stream measures the requests of one source for each connection.
func (r *run) stream(sources []source) error {
	if r.cfg.Warmup > 0 {
		r.begin(warmingUp, r.cfg.Warmup, 0)
		jobs, err := r.each(func(i int) *job {
			j := r.job(sources[i], i)
			j.deadline = r.clock.now() + int64(r.cfg.Warmup)
			return j
		})
		r.tally(jobs)
		if err != nil {
			return err
		}
	}
	r.beginMeasuring()
	m, err := startMeter(r.clock, r.target.Pids)
	if err != nil {
		return err
	}
	jobs, err := r.each(func(i int) *job {
		j := r.job(sources[i], i)
		switch j.count = share(r.cfg.Count, i, len(r.conns)); {
		case r.cfg.Count == 0:
			j.deadline = m.began + int64(r.cfg.Duration)
		case j.count == 0:
			return nil // there are fewer operations than connections
		}
		j.span = newSpan()
		return j
	})
	sum := newSpan()
	for _, j := range jobs {
		sum.add(j.span)
	}
	r.tally(jobs)
	return errors.Join(err, m.finish(&r.result, sum))
}

// job returns a job that runs until its count or deadline is reached, at this connection's
// part of the rate.
func (r *run) job(s source, i int) *job {
	j := &job{src: s, window: r.cfg.Window, stop: r.ctx.Done()}
	if r.cfg.Rate > 0 {
		n := float64(len(r.conns))
		j.interval = max(1, int64(math.Round(n/r.cfg.Rate*1e9)))
		j.start = r.clock.now() + int64(float64(i)/r.cfg.Rate*1e9)
	}
	return j
}

// share returns connection i's part of count.
func share(count int64, i, n int) int64 {
	return count*int64(i+1)/int64(n) - count*int64(i)/int64(n)
}

// mkdir creates an empty node.
func (r *run) mkdir(path string) error {
	name := func(b []byte, _ int64) []byte { return append(b, path...) }
	body := appendCreate(nil, name, 0, jute.ModePersistent, newValues(0, nil))
	if _, err := r.admin.call(jute.OpCreate, body); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

// mkdirs creates the nodes of numbers 0 to n-1.
func (r *run) mkdirs(n int, name namer) error {
	s := &creates{name: name, values: newValues(0, nil)}
	j := &job{src: s, count: int64(n), window: 64, stop: r.ctx.Done()}
	if n == 0 {
		return nil
	}
	if err := r.admin.do(j); err != nil {
		return err
	}
	return j.outcome.err
}
