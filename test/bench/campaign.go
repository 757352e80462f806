package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

// campaign measures all rows of the table.
type campaign struct {
	settings
	ctx       context.Context
	log       io.Writer
	rows      []bench.Figure
	far       time.Duration // one way between servers
	observing int           // servers of each ensemble
}

// race is a workload that both systems run alternately.
type race struct {
	name    string
	cfg     bench.Config
	figures []string // of the comparison, that become rows
	on      where    // nil: all servers
}

// where selects the servers that a load connects to.
type where func(leader *server, followers []*server) []*server

func onLeader(leader *server, _ []*server) []*server      { return []*server{leader} }
func onFollower(_ *server, followers []*server) []*server { return followers[:1] }

// The figures of a bench.Comparison that the table shows.
const (
	figureRate = "operations"
	figureP50  = "latency p50"
	figureP99  = "latency p99"
	figureCPU  = "server CPU per operation"
	figureOwn  = "generator CPU per operation"
)

// load is a load for the time that the settings say.
func (s *settings) load(w bench.Workload, connections, window int) bench.Config {
	c := bench.Defaults(w)
	c.Connections, c.Window = connections, window
	c.Duration, c.Warmup = s.duration, min(time.Second, s.duration)
	return c
}

func (s *settings) races() []race {
	all := s.servers * max(1, 8/s.servers) // as many connections to each server
	races := []race{
		{name: "set 1 KiB, pipelined", cfg: s.load(bench.Set, all, 64), figures: []string{figureRate, figureCPU, figureP99, figureOwn}},
		{name: "create 1 KiB, pipelined", cfg: s.load(bench.Create, all, 64), figures: []string{figureRate, figureCPU, figureP99, figureOwn}},
		{name: "get 1 KiB, pipelined", cfg: s.load(bench.Get, all, 64), figures: []string{figureRate, figureCPU, figureP99, figureOwn}},
	}
	lone := []string{figureP50, figureP99}
	if s.servers == 1 {
		races = append(races, race{name: "lone set 1 KiB", cfg: s.load(bench.Set, 1, 1), figures: lone},
			race{name: "lone get 1 KiB", cfg: s.load(bench.Get, 1, 1), figures: lone})
	} else {
		races = append(races, race{"lone set 1 KiB, through a follower", s.load(bench.Set, 1, 1), lone, onFollower},
			race{"lone set 1 KiB, through the leader", s.load(bench.Set, 1, 1), lone, onLeader},
			race{"lone get 1 KiB, from a follower", s.load(bench.Get, 1, 1), lone, onFollower})
	}
	return append(races, race{name: "new sessions", cfg: s.load(bench.Sessions, 2*all, 1), figures: []string{figureRate, figureCPU, figureOwn}},
		race{name: "1000 watchers of one node, a set until all know", cfg: s.load(bench.Watch, 1000, 1), figures: []string{figureRate, figureCPU, figureOwn}})
}

// run measures what the settings select. If it fails, the complete rows stay.
func (c *campaign) run() error {
	steps := []func() error{c.raceAll, c.idleSessions, c.fullTree, c.largeDirectory, c.deadRacks, c.manyWatches}
	if c.servers > 1 {
		steps = slices.Insert(steps, 1, c.outages, c.disturbances, c.coldStart)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (c *campaign) selected(name string) bool { return strings.Contains(name, c.only) }

// with calls f with a fresh ensemble, whose configurations have the lines, and removes it afterwards.
func (c *campaign) with(program string, f func(*ensemble) error, lines ...string) error {
	e, err := startEnsemble(c.ctx, program, c.dir, shape{servers: c.servers, observers: c.observing, far: c.far, lost: c.lost / 100}, lines...)
	if err != nil {
		return err
	}
	defer e.remove()
	if err := f(e); err != nil {
		return fmt.Errorf("%s: %w", name(program), err)
	}
	return nil
}

// withBoth calls f with a fresh ensemble of each program.
func (c *campaign) withBoth(f func(a, b *ensemble) error, lines ...string) error {
	return c.with(c.a, func(a *ensemble) error {
		return c.with(c.b, func(b *ensemble) error { return f(a, b) }, lines...)
	}, lines...)
}

// raceAll runs the workloads on one pair of ensembles, warmed up.
func (c *campaign) raceAll() error {
	races := slices.DeleteFunc(c.races(), func(r race) bool { return !c.selected(r.name) })
	if len(races) == 0 {
		return nil
	}
	return c.withBoth(func(a, b *ensemble) error {
		for _, e := range []*ensemble{a, b} {
			if err := c.warm(e.target()); err != nil {
				return err
			}
		}
		for _, r := range races {
			if err := c.race(a, b, r); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
		return nil
	})
}

// at returns the servers that a load connects to; nil means all.
func (c *campaign) at(e *ensemble, on where) (bench.Target, error) {
	if on == nil {
		return e.target(), nil
	}
	leader, followers, err := e.roles(c.ctx)
	if err != nil {
		return bench.Target{}, err
	}
	return e.targetOf(on(leader, followers)...), nil
}

// race runs one workload alternately.
func (c *campaign) race(a, b *ensemble, r race) error {
	ta, err := c.at(a, r.on)
	if err != nil {
		return err
	}
	tb, err := c.at(b, r.on)
	if err != nil {
		return err
	}
	seen := func(which string, res bench.Result) {
		fmt.Fprintf(c.log, "%s, %s: %.0f/s, %s\n", r.name, which, res.Rate, res.Latency)
	}
	cmp, err := bench.Compare(c.ctx, ta, tb, r.cfg, c.pairs, seen)
	if err != nil {
		return err
	}
	for _, name := range r.figures {
		if f, ok := cmp.Figure(name); ok {
			f.Name = r.name + ", " + f.Name
			c.rows = append(c.rows, f)
		}
	}
	return nil
}

// warm gives a server's just-in-time compiler time to work.
func (c *campaign) warm(t bench.Target) error {
	cfg := bench.Defaults(bench.Mixed)
	cfg.Reads, cfg.Duration, cfg.Warmup = 0.5, c.warmup, 0
	_, err := bench.Run(c.ctx, t, cfg)
	return err
}

// freshRounds measures fresh servers alternately. measure returns one value for each of the
// rows.
func (c *campaign) freshRounds(rows []bench.Figure, measure func(*ensemble) ([]float64, error)) error {
	return c.turns(c.rounds, rows, func(side int) ([]float64, error) {
		var vs []float64
		err := c.with(c.program(side), func(e *ensemble) (err error) {
			vs, err = measure(e)
			return err
		})
		return vs, err
	})
}

// program is the program of side 0, A, or side 1, B.
func (c *campaign) program(side int) string { return []string{c.a, c.b}[side] }

// turns measures both sides alternately, n times each, and adds the rows. measure returns one
// value for each of them.
func (c *campaign) turns(n int, rows []bench.Figure, measure func(side int) ([]float64, error)) error {
	values := [2][][]float64{make([][]float64, len(rows)), make([][]float64, len(rows))}
	for i := range 2 * n {
		side := (i + i/2) % 2 // A B, B A, A B
		vs, err := measure(side)
		if err != nil {
			return err
		}
		for j, v := range vs {
			values[side][j] = append(values[side][j], v)
			fmt.Fprintf(c.log, "%s, %s: %.4g %s\n", rows[j].Name, name(c.program(side)), v, rows[j].Unit)
		}
	}
	for i, r := range rows {
		c.rows = append(c.rows, bench.NewFigure(r.Name, r.Unit, values[0][i], values[1][i]))
	}
	return nil
}

const mib = 1 << 20

// idleSessions measures the memory of each fresh server with sessions that do
// nothing but ping, shared out among the servers.
func (c *campaign) idleSessions() error {
	what := fmt.Sprintf("%d idle sessions", c.idle)
	if !c.selected(what) {
		return nil
	}
	rows := []bench.Figure{{Name: what + ", resident", Unit: "MiB"}, {Name: what + ", growth of resident", Unit: "MiB"}}
	return c.freshRounds(rows, func(e *ensemble) ([]float64, error) {
		cfg := bench.Defaults(bench.Idle)
		cfg.Connections = c.idle
		cfg.Duration = c.duration + cfg.SessionTimeout/3 // each session pings once at least
		r, err := bench.Run(c.ctx, e.target(), cfg)
		if err != nil {
			return nil, err
		}
		n := float64(c.servers)
		after, before := float64(r.Server.RSSAfter)/n, float64(r.Server.RSSBefore)/n
		return []float64{after / mib, (after - before) / mib}, nil
	})
}

// fullTree measures memory with many znodes, then kills all servers and measures
// how long it takes until one answers a read again.
func (c *campaign) fullTree() error {
	what := fmt.Sprintf("%d znodes", c.znodes)
	if !c.selected(what) {
		return nil
	}
	rows := []bench.Figure{
		{Name: what + ", creates", Unit: "/s"},
		{Name: what + ", resident after loading", Unit: "MiB"},
		{Name: what + ", kill -9 to first read", Unit: "s"},
		{Name: what + ", resident after restart", Unit: "MiB"},
	}
	return c.freshRounds(rows, func(e *ensemble) ([]float64, error) {
		cfg := bench.Defaults(bench.Load)
		cfg.Count, cfg.Keep = c.znodes, true
		r, err := bench.Run(c.ctx, e.target(), cfg)
		if err != nil {
			return nil, err
		}
		loaded := float64(r.Server.RSSAfter) / float64(c.servers)
		began := time.Now()
		e.kill()
		if err := e.start(); err != nil {
			return nil, err
		}
		if err := e.awaitRead(c.ctx, r.Last); err != nil {
			return nil, err
		}
		took := time.Since(began)
		if err := e.awaitHealthy(c.ctx); err != nil {
			return nil, err
		}
		resident, err := e.resident()
		return []float64{r.Rate, loaded / mib, took.Seconds(), resident / mib}, err
	})
}
