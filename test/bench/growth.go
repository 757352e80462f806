package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

// growth is something that a server may have few or many of.
type growth struct {
	name  string // of the picture
	label string // of its horizontal axis
	at    []int  // where the cost of an operation is measured, in the order of the axis
	// load adapts the load to n, nil: not at all.
	load func(c *bench.Config, n int)
	// fill gives the servers what the load does not bring; nil: nothing. What it returns takes that away.
	fill func(c *campaign, e *ensemble, w bench.Workload, n int) (empty func() error, err error)
}

var growths = []growth{
	{"znodes", "znodes", []int{1e3, 1e4, 1e5, 1e6}, func(c *bench.Config, n int) {
		c.Keys, c.Connections, c.Window = n, 32, 16         // or a connection's keys would not fit in a list of children
		c.Warmup += time.Duration(n) * 4 * time.Microsecond // until the snapshot of what was created is written
	}, (*campaign).plant},
	{"sessions", "sessions, all with one request at a time", []int{10, 100, 1000, 10_000}, func(c *bench.Config, n int) {
		c.Connections, c.Window, c.Keys = n, 1, max(n, c.Keys)
		c.Count = int64(20_000 + 4*n) // many connections take their time to begin
	}, nil},
	{"watches", "watches of other nodes", []int{0, 1e4, 1e5, 1e6}, nil, (*campaign).watch},
	{"value-size", "bytes of a value", []int{0, 100, 1 << 10, 10 << 10, 100 << 10}, func(c *bench.Config, n int) {
		c.ValueSize, c.Window = n, min(c.Window, 512<<10/max(n, 1))
	}, nil},
}

type growthOp struct {
	name string
	load bench.Workload
}

// growthOps are the operations whose cost is measured. An ephemeral node is deleted by the next operation,
// so that the tree stays as large as it is.
var growthOps = []growthOp{{"get", bench.Get}, {"set", bench.Set}, {"create or delete", bench.Ephemeral}}

// cost is what an operation costs at one point of one picture.
type cost struct {
	growth, op, program string
	at                  int
	us                  []float64 // of the servers' CPU time, by round
}

// limit is the largest n that the settings allow.
func (s *settings) limit(g growth) int {
	switch g.name {
	case "znodes", "watches":
		return int(s.znodes)
	case "sessions":
		return s.idle
	}
	return g.at[len(g.at)-1]
}

// grow measures what operations cost while one thing grows, and writes a table and pictures to a directory.
func (c *campaign) grow(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var costs []cost
	err := c.growAll(&costs)
	f, bad := os.Create(filepath.Join(dir, costsFile))
	if bad != nil {
		return errors.Join(err, bad)
	}
	// If something fails, what was measured before stays.
	return errors.Join(err, writeCosts(f, costs), f.Close(), drawCosts(dir, costs))
}

func (c *campaign) growAll(costs *[]cost) error {
	for round := range c.rounds {
		programs := []string{c.b}
		if round == 0 && c.a != "" {
			programs = []string{c.a, c.b} // the first is there for comparison
		}
		for _, g := range growths {
			if !c.selected(g.name) {
				continue
			}
			for _, p := range programs {
				err := c.with(p, func(e *ensemble) error { return c.growOne(e, g, costs) })
				if err != nil {
					return fmt.Errorf("%s: %w", g.name, err)
				}
			}
		}
	}
	return nil
}

// growOne measures a fresh server at all points of a picture once.
func (c *campaign) growOne(e *ensemble, g growth, costs *[]cost) error {
	if apacheArgv(e.program) != nil {
		if err := c.warm(e.target()); err != nil { // its just-in-time compiler
			return err
		}
	}
	for _, n := range g.at {
		if n > c.limit(g) {
			continue
		}
		for _, op := range growthOps {
			r, err := c.growPoint(e, g, op.load, n)
			if err != nil {
				return fmt.Errorf("%s, %d: %w", op.name, n, err)
			}
			us := r.Server.CPUPerThousand * 1e3
			fmt.Fprintf(c.log, "%s, %d %s, %s: %.3g us, %.0f/s\n", name(e.program), n, g.name, op.name, us, r.Rate)
			addCost(costs, cost{g.name, op.name, name(e.program), n, []float64{us}})
		}
	}
	return nil
}

func (c *campaign) growPoint(e *ensemble, g growth, w bench.Workload, n int) (r bench.Result, err error) {
	if g.fill != nil {
		empty, err := g.fill(c, e, w, n)
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, empty()) }()
	}
	cfg := c.load(w, 8, 64)
	cfg.ValueSize = 100
	if g.load != nil {
		g.load(&cfg, n)
	}
	if r, err = bench.Run(c.ctx, e.target(), cfg); err == nil {
		err = c.ctx.Err()
	}
	if err == nil && r.Server != nil && r.Server.CPUPerThousand == 0 {
		err = errors.New("no CPU time was measured: give it a longer -duration")
	}
	return r, err
}

// plant creates n nodes, unless the load does.
func (c *campaign) plant(e *ensemble, w bench.Workload, n int) (empty func() error, err error) {
	if w != bench.Ephemeral {
		return func() error { return nil }, nil
	}
	cfg := bench.Defaults(bench.Load)
	cfg.Count, cfg.Keep = int64(n), true
	if _, err := bench.Run(c.ctx, e.target(), cfg); err != nil {
		return nil, err
	}
	return func() error { _, err := bench.Clean(context.WithoutCancel(c.ctx), e.target()); return err }, nil
}

// watchers is how many sessions share the watches.
const watchers = 10

// watch sets n watches, each of a node that does not exist.
func (c *campaign) watch(e *ensemble, _ bench.Workload, n int) (empty func() error, err error) {
	var open []*client.Client
	empty = func() error {
		return atOnce(open, func(cl *client.Client) error { return cl.Close(context.WithoutCancel(c.ctx)) })
	}
	for range min(n, watchers) {
		cl, err := client.Connect(c.ctx, e.addrs(), client.Options{})
		if err != nil {
			return nil, errors.Join(err, empty())
		}
		open = append(open, cl)
		err = pipelined(0, int64(n/watchers), func(i int64, then func(error)) {
			cl.Async().ExistsW(fmt.Sprintf("/watched-%d", i), func(_ client.Presence, err error) {
				if errors.Is(err, client.ErrNoNode) {
					err = nil
				}
				then(err)
			})
		})
		if err != nil {
			return nil, errors.Join(err, empty())
		}
	}
	return empty, nil
}

// addCost adds the rounds of a point to those that are there.
func addCost(costs *[]cost, add cost) {
	for i := range *costs {
		c := &(*costs)[i]
		if c.growth == add.growth && c.op == add.op && c.program == add.program && c.at == add.at {
			c.us = append(c.us, add.us...)
			return
		}
	}
	*costs = append(*costs, add)
}
