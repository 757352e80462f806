package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

// layout is a way to share out servers over sites. Clients at the first site have the leader beside them.
type layout struct {
	name      string
	places    []int // the site of each server, voters first
	observers int   // the last of them
	survives  bool  // the rest is a majority when all of the first site is lost
}

func (l layout) shape(trip time.Duration) shape {
	return shape{servers: len(l.places) - l.observers, observers: l.observers, far: trip / 2, places: l.places}
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
type apart struct {
	here, there, read []float64
	lost              []float64 // by the loss of the first site: time without a write elsewhere
	missing, again    []float64 // or, if there is no majority: how long before the loss the first write was acknowledged that is missing elsewhere; until what is there serves
}

// shareOut prints what clients get of each layout, with each round trip between the sites.
func (c *campaign) shareOut(out io.Writer) error {
	fmt.Fprintln(out, "| voters | round trip | set beside the leader, p50 (ms) | set at another site | get at another site | the leader's site is lost: what is missing of the acknowledged writes, and how long nobody elsewhere can write (ms) |")
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
			var lost string
			if l.survives {
				lost = "none, " + spreadText(m.lost)
			} else {
				lost = fmt.Sprintf("those of the last %s are missing; %s after `zkd restore`", spreadText(m.missing), spreadText(m.again))
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
	e, err := startEnsemble(c.ctx, c.b, c.dir, l.shape(trip))
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
	if l.survives {
		return m, nil
	}
	for range c.pairs {
		if err := c.restoreElsewhere(l, trip, &m); err != nil {
			return m, err
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

// counting is how many clients write while a site is lost.
const counting = 8

// restoreElsewhere kills all servers of the first site at once while clients there write, and makes a server of what another site has.
func (c *campaign) restoreElsewhere(l layout, trip time.Duration, m *apart) error {
	e, err := startEnsemble(c.ctx, c.b, c.dir, l.shape(trip))
	if err != nil {
		return err
	}
	defer e.remove()
	leader, elsewhere, err := c.leadAtFirst(e, l)
	if err != nil {
		return err
	}
	acked, err := count(c.ctx, leader.addr, 2*time.Second, func() {
		for _, s := range e.servers {
			if s != elsewhere[0] {
				s.signal(syscall.SIGKILL)
			}
		}
	})
	lost := time.Now()
	within(c.ctx, time.Second) // what was on its way arrives
	elsewhere[0].signal(syscall.SIGTERM)
	<-elsewhere[0].gone
	if err != nil {
		return err
	}
	again, err := newEnsemble(c.b, c.dir, shape{servers: 1})
	if err != nil {
		return err
	}
	defer again.remove()
	began, s := time.Now(), again.servers[0]
	restore := exec.CommandContext(c.ctx, c.b, "restore", "--from", filepath.Join(elsewhere[0].dir, "data"), "--to", filepath.Join(s.dir, "data"))
	if out, err := restore.CombinedOutput(); err != nil {
		return fmt.Errorf("zkd restore: %w: %s", err, out)
	}
	if err := errors.Join(again.start(), again.awaitRead(c.ctx, "/")); err != nil {
		return err
	}
	m.again = append(m.again, time.Since(began).Seconds()*1e3)
	first, err := firstMissing(c.ctx, s.addr, acked, lost)
	m.missing = append(m.missing, lost.Sub(first).Seconds()*1e3)
	return err
}

// firstMissing returns when the first of the writes was acknowledged that a server does not have, or the time of the loss if it has all.
func firstMissing(ctx context.Context, addr string, acked [counting][]time.Time, lost time.Time) (time.Time, error) {
	var firsts [counting]time.Time
	err := eachCounter(ctx, addr, func(i int, cl *client.Client) error {
		firsts[i] = lost
		node, err := cl.Get(ctx, counter(i))
		if err != nil {
			return err
		}
		has, err := strconv.Atoi(string(node.Data))
		if err == nil && has < len(acked[i]) && acked[i][has].Before(lost) {
			firsts[i] = acked[i][has]
		}
		return err
	})
	return slices.MinFunc(firsts[:], time.Time.Compare), err
}

func counter(i int) string { return fmt.Sprintf("/counter-%d", i) }

// eachCounter calls f for all counters concurrently, each with its own client.
func eachCounter(ctx context.Context, addr string, f func(i int, cl *client.Client) error) error {
	var errs [counting]error
	var wg sync.WaitGroup
	for i := range counting {
		wg.Go(func() {
			cl, err := client.Connect(ctx, addr, client.Options{AllowReadOnly: true})
			if err == nil {
				err = f(i, cl)
				closing, cancel := context.WithTimeout(ctx, time.Second)
				_ = cl.Close(closing) // the server may have ended
				cancel()
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// count has clients set counters to 1, 2, 3…, calls end after a while, and returns when each of their writes was acknowledged.
func count(ctx context.Context, addr string, d time.Duration, end func()) (acked [counting][]time.Time, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	time.AfterFunc(d, func() { end(); cancel() })
	err = eachCounter(ctx, addr, func(i int, cl *client.Client) error {
		if _, err := cl.Create(ctx, counter(i), []byte("0"), client.CreateOptions{}); err != nil {
			return err
		}
		for {
			_, err := cl.Set(ctx, counter(i), strconv.AppendInt(nil, int64(len(acked[i])+1), 10), client.AnyVersion)
			if err != nil {
				return nil // the site is lost
			}
			acked[i] = append(acked[i], time.Now())
		}
	})
	return acked, err
}
