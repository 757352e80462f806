package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/bench"
)

// campaign measures all rows of the table.
type campaign struct {
	settings
	ctx  context.Context
	log  io.Writer
	rows []bench.Figure
}

// race is a workload that both servers run by turns.
type race struct {
	name    string
	cfg     bench.Config
	figures []string // of the comparison, that become rows
}

// The figures of a bench.Comparison that the table shows.
const (
	figureRate = "operations"
	figureP50  = "latency p50"
	figureP99  = "latency p99"
	figureCPU  = "server CPU per operation"
)

func (s *settings) races() []race {
	cfg := func(w bench.Workload, connections, window int) bench.Config {
		c := bench.Defaults(w)
		c.Connections, c.Window = connections, window
		c.Duration, c.Warmup = s.duration, min(time.Second, s.duration)
		return c
	}
	return []race{
		{"set 1 KiB, pipelined", cfg(bench.Set, 8, 64), []string{figureRate, figureCPU, figureP99}},
		{"get 1 KiB, pipelined", cfg(bench.Get, 8, 64), []string{figureRate, figureCPU, figureP99}},
		{"lone set 1 KiB", cfg(bench.Set, 1, 1), []string{figureP50, figureP99}},
		{"lone get 1 KiB", cfg(bench.Get, 1, 1), []string{figureP50, figureP99}},
		{"new sessions", cfg(bench.Sessions, 16, 1), []string{figureRate, figureCPU}},
	}
}

// run measures what the settings select. The rows that are complete stay if it
// fails.
func (c *campaign) run() error {
	steps := []func() error{c.raceAll, c.idleSessions, c.fullTree}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (c *campaign) selected(name string) bool { return strings.Contains(name, c.only) }

// withServer calls f with a fresh server and removes it afterwards.
func (c *campaign) withServer(program string, f func(*server) error) error {
	s, err := startServer(c.ctx, program, c.dir)
	if err != nil {
		return err
	}
	defer s.remove()
	if err := f(s); err != nil {
		return fmt.Errorf("%s: %w", name(program), err)
	}
	return nil
}

// raceAll runs the workloads on one pair of servers, warmed up.
func (c *campaign) raceAll() error {
	races := slices.DeleteFunc(c.races(), func(r race) bool { return !c.selected(r.name) })
	if len(races) == 0 {
		return nil
	}
	return c.withServer(c.a, func(a *server) error {
		return c.withServer(c.b, func(b *server) error {
			for _, s := range []*server{a, b} {
				if err := c.warm(s.target()); err != nil {
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
	})
}

// race runs one workload by turns.
func (c *campaign) race(a, b *server, r race) error {
	seen := func(which string, res bench.Result) {
		fmt.Fprintf(c.log, "%s, %s: %.0f/s, %s\n", r.name, which, res.Rate, res.Latency)
	}
	cmp, err := bench.Compare(c.ctx, a.target(), b.target(), r.cfg, c.pairs, seen)
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

// warm gives a server's compiler time to do its work.
func (c *campaign) warm(t bench.Target) error {
	cfg := bench.Defaults(bench.Mixed)
	cfg.Reads, cfg.Duration, cfg.Warmup = 0.5, c.warmup, 0
	_, err := bench.Run(c.ctx, t, cfg)
	return err
}

// freshRounds measures fresh servers by turns. measure returns one value for each
// of the rows.
func (c *campaign) freshRounds(rows []bench.Figure, measure func(*server) ([]float64, error)) error {
	a, b := make([][]float64, len(rows)), make([][]float64, len(rows))
	one := func(program string, values [][]float64) error {
		return c.withServer(program, func(s *server) error {
			vs, err := measure(s)
			for i, v := range vs {
				values[i] = append(values[i], v)
				fmt.Fprintf(c.log, "%s, %s: %.4g %s\n", rows[i].Name, name(program), v, rows[i].Unit)
			}
			return err
		})
	}
	for range c.rounds {
		if err := one(c.a, a); err != nil {
			return err
		}
		if err := one(c.b, b); err != nil {
			return err
		}
	}
	for i, r := range rows {
		c.rows = append(c.rows, bench.NewFigure(r.Name, r.Unit, a[i], b[i]))
	}
	return nil
}

const mib = 1 << 20

// idleSessions measures the memory of a fresh server with sessions that do
// nothing but ping.
func (c *campaign) idleSessions() error {
	what := fmt.Sprintf("%d idle sessions", c.idle)
	if !c.selected(what) {
		return nil
	}
	rows := []bench.Figure{{Name: what + ", resident", Unit: "MiB"}, {Name: what + ", growth of resident", Unit: "MiB"}}
	return c.freshRounds(rows, func(s *server) ([]float64, error) {
		cfg := bench.Defaults(bench.Idle)
		cfg.Connections = c.idle
		cfg.Duration = c.duration + cfg.SessionTimeout/3 // each session pings once at least
		r, err := bench.Run(c.ctx, s.target(), cfg)
		if err != nil {
			return nil, err
		}
		after, before := float64(r.Server.RSSAfter), float64(r.Server.RSSBefore)
		return []float64{after / mib, (after - before) / mib}, nil
	})
}

// fullTree measures memory with many znodes, then kills the server and measures
// how long it takes to answer a read again.
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
	return c.freshRounds(rows, func(s *server) ([]float64, error) {
		cfg := bench.Defaults(bench.Load)
		cfg.Count, cfg.Keep = c.znodes, true
		r, err := bench.Run(c.ctx, s.target(), cfg)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		s.kill()
		if err := s.start(c.ctx, r.Last); err != nil {
			return nil, err
		}
		took := time.Since(began)
		rss, err := bench.ProcessRSS(s.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		return []float64{r.Rate, float64(r.Server.RSSAfter) / mib, took.Seconds(), float64(rss) / mib}, nil
	})
}
