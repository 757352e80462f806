package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

// shares are the shares of reads for which a curve has points.
var shares = []float64{0, 0.5, 0.9, 1}

// largestA is the largest ensemble of the first program that is on the curve: it
// is there for comparison.
const largestA = 3

// The load of a curve is about the same for each ensemble, and below the 1,000
// outstanding requests at which Apache's server stops reading from its clients.
const (
	curveConnections = 24 // in all, rounded up to as many for each server
	curveWindow      = 32
)

// line is an ensemble on the curve, with its measurements.
type line struct {
	side       int // 0 is the first program, 1 the second
	program    string
	size       int
	unsynced   bool // nothing is synced, and it has a point only where nothing is read
	ensemble   *ensemble
	rates, cpu [][]float64 // by share, and by round
}

// parseSizes reads a list like 1,3,5; an empty one has none.
func parseSizes(list string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	var sizes []int
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n == 2 || slices.Contains(sizes, n) {
			return nil, fmt.Errorf("curve: %q in %q: want sizes of ensembles, each once: 1, or at least 3", word, list)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// lines returns what a curve compares: the sizes of both programs, then those of
// the unsynced ones.
func (s *settings) lines() []*line {
	var lines []*line
	for _, unsynced := range []bool{false, true} {
		for side, program := range []string{s.a, s.b} {
			for _, n := range s.sizes {
				if n <= largestA || side == 1 && !unsynced {
					lines = append(lines, &line{
						side: side, program: program, size: n, unsynced: unsynced,
						rates: make([][]float64, len(shares)), cpu: make([][]float64, len(shares)),
					})
				}
			}
		}
	}
	return lines
}

// drawCurve runs all ensembles side by side, so that each round has a point of
// each of them, and writes the tables. Only one has load at a time.
func (c *campaign) drawCurve(w io.Writer) error {
	lines := c.lines()
	defer func() {
		for _, l := range lines {
			if l.ensemble != nil {
				l.ensemble.remove()
			}
		}
	}()
	for _, l := range lines {
		if err := l.start(c.ctx, c.dir); err != nil {
			return err
		}
		if apacheArgv(l.program) == nil {
			continue // has no just-in-time compiler
		}
		if err := c.warm(l.ensemble.target()); err != nil {
			return fmt.Errorf("%s: %w", l, err)
		}
	}
	for round := range c.rounds {
		if err := c.curveRound(round, lines); err != nil {
			return err
		}
	}
	return writeCurve(w, lines, name(c.a), name(c.b))
}

// start runs the servers.
func (l *line) start(ctx context.Context, dir string) (err error) {
	var config []string
	if l.unsynced {
		config = append(config, "forceSync=no")
	}
	l.ensemble, err = startEnsemble(ctx, l.program, dir, shape{servers: l.size}, config...)
	return err
}

// curveRound measures one point of each line for each share, in an order that
// is reversed from round to round.
func (c *campaign) curveRound(round int, lines []*line) error {
	lines = slices.Clone(lines)
	if round%2 == 1 {
		slices.Reverse(lines)
	}
	for share, reads := range shares {
		for _, l := range lines {
			if l.unsynced && reads > 0 {
				continue
			}
			if err := c.curvePoint(l, share); err != nil {
				return fmt.Errorf("%s, %s: %w", l, percent(reads), err)
			}
		}
	}
	return nil
}

// curvePoint measures a line once, with one of the shares.
func (c *campaign) curvePoint(l *line, share int) error {
	r, err := bench.Run(c.ctx, l.ensemble.target(), c.curveLoad(l.size, shares[share]))
	if err == nil {
		err = c.ctx.Err()
	}
	if err != nil {
		return err
	}
	if l.unsynced {
		syscall.Sync() // or the next one's disk would be busy with this one's data
	}
	fmt.Fprintf(c.log, "%s, %s: %.0f/s, %s\n", l, percent(shares[share]), r.Rate, r.Latency)
	l.rates[share] = append(l.rates[share], r.Rate)
	l.cpu[share] = append(l.cpu[share], r.Server.CPUPerThousand*1e3)
	return nil
}

// curveLoad is the load for an ensemble of n servers.
func (s *settings) curveLoad(n int, reads float64) bench.Config {
	cfg := bench.Defaults(bench.Mixed)
	cfg.Reads = reads
	cfg.Connections, cfg.Window = (curveConnections+n-1)/n*n, curveWindow
	cfg.Duration, cfg.Warmup = s.duration, s.duration/3
	return cfg
}

// String is the line's name in the tables.
func (l *line) String() string {
	s := fmt.Sprintf("%s, %d", name(l.program), l.size)
	if l.unsynced {
		s += ", unsynced"
	}
	return s
}

func percent(share float64) string { return fmt.Sprintf("%.0f %% reads", 100*share) }
