package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

// fault is a fault of the leader.
type fault struct {
	name   string
	count  int
	strike func(leader *server)
	heal   func(leader *server) error // afterwards it can serve again
}

func (s *settings) leaderFaults() []fault {
	few := max(1, s.faults/5)
	return []fault{
		{"leader killed with -9", s.faults, (*server).kill, (*server).start},
		{"leader hung (SIGSTOP)", few,
			func(l *server) { l.signal(syscall.SIGSTOP) },
			func(l *server) error { l.signal(syscall.SIGCONT); return nil }},
		{"leader asked to end (SIGTERM)", few,
			func(l *server) { l.signal(syscall.SIGTERM) },
			func(l *server) error {
				select {
				case <-l.gone:
				case <-time.After(startTimeout):
					return fmt.Errorf("process still runs %v after SIGTERM", startTimeout)
				}
				return l.start()
			}},
	}
}

// settle is how long writes must succeed again until an outage counts as over.
const settle = time.Second

// outages measures how long no writes succeed after a fault of the leader under load.
func (c *campaign) outages() error {
	faults := slices.DeleteFunc(c.leaderFaults(), func(f fault) bool { return !c.selected(f.name) })
	if len(faults) == 0 {
		return nil
	}
	return c.withBoth(func(a, b *ensemble) error {
		sides := []*ensemble{a, b}
		for _, e := range sides {
			if err := c.warm(e.target()); err != nil {
				return err
			}
		}
		for _, f := range faults {
			if err := c.strikeAll(sides, f); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		return nil
	})
}

// strikeAll repeats a fault on both sides by turns.
func (c *campaign) strikeAll(sides []*ensemble, f fault) error {
	var gaps [2][]float64
	row := bench.Figure{Name: f.name + ", longest time without a write", Unit: "ms"}
	err := c.turns(f.count, []bench.Figure{row}, func(side int) ([]float64, error) {
		gap, err := c.strike(sides[side], f)
		gaps[side] = append(gaps[side], gap)
		return []float64{gap}, err
	})
	if err == nil && f.count > 1 {
		c.rows = append(c.rows, bench.NewFigure(
			fmt.Sprintf("%s, 99th percentile of %d", f.name, f.count), "ms",
			[]float64{percentile(gaps[0], 99)}, []float64{percentile(gaps[1], 99)}))
	}
	return err
}

// percentile returns the smallest value that p percent of vs do not exceed.
func percentile(vs []float64, p float64) float64 {
	sorted := slices.Sorted(slices.Values(vs))
	return sorted[int(math.Ceil(p/100*float64(len(vs))))-1]
}

// strike injects one fault under load and returns the time without a write, in ms. It returns
// when all servers have their roles again.
func (c *campaign) strike(e *ensemble, f fault) (float64, error) {
	leader, _, err := e.roles(c.ctx)
	if err != nil {
		return 0, err
	}
	w, err := bench.StartWriters(c.ctx, e.target(), bench.Defaults(bench.Outages))
	if err != nil {
		return 0, err
	}
	gap, err := c.outage(w, leader, f)
	o, stopErr := w.Stop()
	if err = errors.Join(err, stopErr); err != nil {
		return 0, err
	}
	if o.Expired > 0 {
		fmt.Fprintf(c.log, "%s, %s: %d sessions expired\n", f.name, name(e.program), o.Expired)
	}
	return gap.Long * 1e3, e.awaitHealthy(c.ctx)
}

// outage waits for an even load, injects a fault, waits for an even load again, and heals.
func (c *campaign) outage(w *bench.Writers, leader *server, f fault) (bench.Gap, error) {
	ctx, cancel := context.WithTimeout(c.ctx, startTimeout)
	defer cancel()
	if _, err := w.AwaitSteady(ctx, settle); err != nil {
		return bench.Gap{}, err
	}
	w.Mark()
	f.strike(leader)
	gap, err := w.AwaitSteady(ctx, settle)
	return gap, errors.Join(err, f.heal(leader))
}

// disturbance is what happens to a follower, or to an ensemble whose follower it is.
type disturbance struct {
	name string
	// begin prepares the follower, strike is called in the middle of the load, and heal restores what was
	// before. Each may be nil.
	begin, strike, heal func(context.Context, *ensemble, *server) error
}

// unitTimes is the unit of a ratio of a system to itself. A ratio of both systems' ratios
// would mean nothing.
const unitTimes = "times"

// slowBy is the additional time of each fdatasync on a slow disk.
const slowBy = 50 * time.Millisecond

func killFollower(_ context.Context, _ *ensemble, f *server) error {
	f.kill()
	return nil
}

func startFollower(_ context.Context, _ *ensemble, f *server) error { return f.start() }

// losses are disturbances for which it makes no difference how large the tree is.
func losses() []disturbance {
	return []disturbance{
		{"a follower killed meanwhile", nil, killFollower, startFollower},
		{
			fmt.Sprintf("a follower's disk slower by %d ms", slowBy.Milliseconds()),
			func(_ context.Context, _ *ensemble, f *server) error {
				f.kill()
				return f.startOnSlowDisk(slowBy)
			},
			nil,
			func(_ context.Context, _ *ensemble, f *server) error {
				f.kill()
				return f.start()
			},
		},
	}
}

// returns are disturbances in which a server reads its whole tree, or is sent it.
func (c *campaign) returns() []disturbance {
	return []disturbance{
		{"a follower restarted meanwhile", nil, func(_ context.Context, _ *ensemble, f *server) error {
			f.signal(syscall.SIGTERM)
			<-f.gone
			return f.start()
		}, nil},
		{"a follower loses its data meanwhile", nil, func(_ context.Context, _ *ensemble, f *server) error {
			f.kill()
			return errors.Join(f.empty(), f.start())
		}, nil},
		{"a server joins meanwhile", nil,
			func(ctx context.Context, e *ensemble, _ *server) error { return e.join(ctx, c.dir) },
			func(ctx context.Context, e *ensemble, _ *server) error { return e.leave(ctx) }},
	}
}

// disturbedRate is the load on an ensemble with a disturbed follower, sets per
// second: about a tenth of what it can.
const disturbedRate = 2000

// disturbances measures how a follower that is lost, slow or back affects writes through the other
// servers. Each disturbed run directly follows an undisturbed one on the same two servers.
func (c *campaign) disturbances() error {
	const what = "sets at 2000/s"
	if err := c.disturbAll(what, 0, losses()); err != nil {
		return err
	}
	return c.disturbAll(fmt.Sprintf("%s beside %d znodes", what, c.znodes), c.znodes, c.returns())
}

func (c *campaign) disturbAll(what string, znodes int64, ds []disturbance) error {
	ds = slices.DeleteFunc(ds, func(d disturbance) bool { return !c.selected(what + ", " + d.name) })
	if len(ds) == 0 {
		return nil
	}
	return c.withBoth(func(a, b *ensemble) error {
		sides := []*ensemble{a, b}
		for _, e := range sides {
			if err := c.warm(e.target()); err != nil {
				return err
			}
			if znodes == 0 {
				continue
			}
			load := bench.Defaults(bench.Load)
			load.Count, load.Keep = znodes, true
			if _, err := bench.Run(c.ctx, e.target(), load); err != nil {
				return err
			}
		}
		for _, d := range ds {
			rows := []bench.Figure{
				{Name: what + ", " + d.name + ": latency p99 without that", Unit: "us"},
				{Name: what + ", " + d.name + ": latency p99", Unit: "us"},
				{Name: what + ", " + d.name + ": p99 with to p99 without", Unit: unitTimes},
			}
			err := c.turns(c.pairs, rows, func(side int) ([]float64, error) { return c.disturb(sides[side], d) })
			if err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
		}
		return nil
	}, "reconfigEnabled=true", "skipACL=yes")
}

// disturb returns the 99th percentile of latency without the disturbance, with
// it, and their ratio.
func (c *campaign) disturb(e *ensemble, d disturbance) ([]float64, error) {
	before, err := c.p99(e, nil, nil)
	if err != nil {
		return nil, err
	}
	_, followers, err := e.roles(c.ctx)
	if err != nil {
		return nil, err
	}
	follower := followers[1]
	if d.begin != nil {
		if err := errors.Join(d.begin(c.ctx, e, follower), e.awaitHealthy(c.ctx)); err != nil {
			return nil, err
		}
	}
	after, err := c.p99(e, follower, d.strike)
	if err == nil && d.heal != nil {
		err = d.heal(c.ctx, e, follower)
	}
	if err != nil {
		return nil, err
	}
	return []float64{before, after, after / before}, e.awaitHealthy(c.ctx)
}

// p99 runs an even load on the leader and a follower, and disturbs the other follower after a
// quarter of it.
func (c *campaign) p99(e *ensemble, struck *server, strike func(context.Context, *ensemble, *server) error) (float64, error) {
	leader, followers, err := e.roles(c.ctx)
	if err != nil {
		return 0, err
	}
	others := slices.DeleteFunc(followers, func(f *server) bool { return f == struck })
	target := e.targetOf(leader, others[0])
	target.Pids = nil // one of them may end
	cfg := bench.Defaults(bench.Set)
	cfg.Rate, cfg.Duration, cfg.Warmup = disturbedRate, c.duration, min(time.Second, c.duration)
	var wg sync.WaitGroup
	var failed error
	if strike != nil {
		wg.Go(func() {
			select {
			case <-time.After(cfg.Warmup + cfg.Duration/4):
				failed = strike(c.ctx, e, struck)
			case <-c.ctx.Done():
			}
		})
	}
	r, err := bench.Run(c.ctx, target, cfg)
	wg.Wait()
	return r.Latency.P99, errors.Join(err, failed)
}

// coldStart measures the time from starting all processes to the first write.
func (c *campaign) coldStart() error {
	const what = "cold start with 1000 znodes"
	if !c.selected(what) {
		return nil
	}
	return c.withBoth(func(a, b *ensemble) error {
		sides := []*ensemble{a, b}
		roots := make([]string, len(sides))
		for i, e := range sides {
			cfg := bench.Defaults(bench.Load)
			cfg.Count, cfg.Keep = 1000, true
			r, err := bench.Run(c.ctx, e.target(), cfg)
			if err != nil {
				return err
			}
			roots[i] = r.Root
			e.kill()
		}
		row := bench.Figure{Name: what + ", to first write", Unit: "s"}
		return c.turns(c.pairs, []bench.Figure{row}, func(side int) ([]float64, error) {
			e := sides[side]
			defer e.kill()
			began := time.Now()
			if err := e.start(); err != nil {
				return nil, err
			}
			err := e.awaitWrite(c.ctx, roots[side])
			return []float64{time.Since(began).Seconds()}, err
		})
	})
}
