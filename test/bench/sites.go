package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

// layout is a way to share out servers over sites. Clients at the first site have the leader beside them.
type layout struct {
	name      string
	places    []int // the site of each server, voters first
	observers int   // the last of them
	survives  bool  // the rest is a majority when all of the first site is lost
}

func layouts() []layout {
	return []layout{
		{"3 sites: 1 + 1 + 1", []int{0, 1, 2}, 0, true},
		{"3 sites: 2 + 2 + 1", []int{0, 0, 1, 1, 2}, 0, true},
		{"2 sites: 2 + 1", []int{0, 0, 1}, 0, false},
		{"2 sites: 3 + an observer", []int{0, 0, 0, 1}, 1, false},
	}
}

// apart is what was measured of one layout, in ms.
type apart struct{ here, there, read, lost []float64 }

// shareOut prints what clients get of each layout, with each round trip between the sites.
func (c *campaign) shareOut(out io.Writer) error {
	fmt.Fprintln(out, "| voters | round trip | set beside the leader, p50 (ms) | set at another site | get at another site | the leader's site is lost: longest time without a write elsewhere (ms) |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|")
	for _, l := range layouts() {
		for _, trip := range c.trips {
			if !c.selected(l.name) {
				continue
			}
			m, err := c.measureApart(l, trip)
			if err != nil {
				return fmt.Errorf("%s, %v: %w", l.name, trip, err)
			}
			lost := "no writes until it is back"
			if l.survives {
				lost = spreadText(m.lost)
			}
			fmt.Fprintf(out, "| %s | %v | %s | %s | %s | %s |\n", l.name, trip, spreadText(m.here), spreadText(m.there), spreadText(m.read), lost)
		}
	}
	fmt.Fprintf(out, "\nMedians of %d, and the lowest and the highest.\n", c.pairs)
	return nil
}

func spreadText(vs []float64) string {
	s := bench.NewSpread(vs)
	return fmt.Sprintf("%.3g (%.3g to %.3g)", s.Median, s.Min, s.Max)
}

// measureApart measures one layout.
func (c *campaign) measureApart(l layout, trip time.Duration) (m apart, err error) {
	e, err := startEnsemble(c.ctx, c.b, c.dir, shape{servers: len(l.places) - l.observers, observers: l.observers, far: trip / 2, places: l.places})
	if err != nil {
		return m, err
	}
	defer e.remove()
	for range c.pairs {
		leader, elsewhere, err := c.leadAtFirst(e, l)
		if err != nil {
			return m, err
		}
		for _, f := range []struct {
			at   *server
			what bench.Workload
			to   *[]float64
		}{{leader, bench.Set, &m.here}, {elsewhere[0], bench.Set, &m.there}, {elsewhere[0], bench.Get, &m.read}} {
			load := c.load(f.what, 1, 1)
			load.Keys = 10 // to make a key takes a round trip or two as well
			r, err := bench.Run(c.ctx, e.targetOf(f.at), load)
			if err != nil {
				return m, err
			}
			*f.to = append(*f.to, r.Latency.P50/1e3)
		}
		if l.survives {
			gap, err := c.loseFirst(e, elsewhere)
			if err != nil {
				return m, err
			}
			m.lost = append(m.lost, gap)
		}
		fmt.Fprintf(c.log, "%s, %v: %+v\n", l.name, trip, m)
	}
	return m, nil
}

// leadAtFirst returns the leader, at the first site, and the servers at the others. It asks leaders elsewhere to end until there is one.
func (c *campaign) leadAtFirst(e *ensemble, l layout) (leader *server, elsewhere []*server, err error) {
	for i, s := range e.servers {
		if l.places[i] != 0 {
			elsewhere = append(elsewhere, s)
		}
	}
	end := c.leaderFaults()[2]
	for range 30 {
		if leader, _, err = e.roles(c.ctx); err != nil || !slices.Contains(elsewhere, leader) {
			return leader, elsewhere, err
		}
		end.strike(leader)
		if err := errors.Join(end.heal(leader), e.awaitHealthy(c.ctx)); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, errors.New("no leader at the first site after 30 elections")
}

// loseFirst kills all servers of the first site at once, and returns for how long clients at the others could not write, in ms. It
// starts them again.
func (c *campaign) loseFirst(e *ensemble, elsewhere []*server) (float64, error) {
	lost := slices.DeleteFunc(slices.Clone(e.servers), func(s *server) bool { return slices.Contains(elsewhere, s) })
	w, err := bench.StartWriters(c.ctx, e.targetOf(elsewhere...), bench.Defaults(bench.Outages))
	if err != nil {
		return 0, err
	}
	gap, err := c.outage(w, nil, fault{
		strike: func(*server) {
			for _, s := range lost {
				s.signal(syscall.SIGKILL)
			}
		},
		heal: func(*server) (err error) {
			for _, s := range lost {
				s.kill()
				err = errors.Join(err, s.start())
			}
			return err
		},
	})
	_, stopErr := w.Stop()
	return gap.Long * 1e3, errors.Join(err, stopErr, e.awaitHealthy(c.ctx))
}
