package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

const (
	copiedRate = 5000 // sets a second while a standby follows
	probeEvery = 5 * time.Millisecond
	lookEvery  = time.Millisecond
	probe      = "/probe"
)

// copied is what was measured of a standby, in ms.
type copied struct {
	rates    []float64 // sets/s
	p50, p99 []float64 // from a set's acknowledgement until the standby shows it
	missing  []float64 // how long before the loss of the site the first set was acknowledged that the standby does not have
}

// lag prints how far a standby is behind an ensemble at another site, and what it lacks when that site is lost.
func (c *campaign) lag(out io.Writer) error {
	fmt.Fprintln(out, "| round trip | sets/s | from a set's acknowledgement until the standby shows it: p50 (ms) | p99 | the site is lost: what the standby does not have was acknowledged in the last (ms) |")
	fmt.Fprintln(out, "|---|---|---|---|---|")
	for _, trip := range c.trips {
		var m copied
		if err := c.withStandby(trip, func(e *ensemble, s *server) error { return c.follow(trip, e, s, &m) }); err != nil {
			return fmt.Errorf("%v: %w", trip, err)
		}
		for range c.pairs {
			if err := c.withStandby(trip, func(e *ensemble, s *server) error { return c.lose(e, s, &m) }); err != nil {
				return fmt.Errorf("%v, a loss: %w", trip, err)
			}
		}
		fmt.Fprintf(out, "| %v | %s | %s | %s | %s |\n", trip, spreadText(m.rates), spreadText(m.p50), spreadText(m.p99), spreadText(m.missing))
	}
	fmt.Fprintf(out, "\nThree servers at a site, a standby at the other. Medians of %d runs of %v, and of as many losses, and the lowest and the highest.\n", c.pairs, c.duration)
	return nil
}

// withStandby calls f with a fresh ensemble and a standby of it.
func (c *campaign) withStandby(trip time.Duration, f func(e *ensemble, s *server) error) error {
	e, err := startEnsemble(c.ctx, c.b, c.dir, shape{servers: 3, far: trip / 2, places: []int{0, 0, 0, 1}}, adminOn)
	if err != nil {
		return err
	}
	defer e.remove()
	s, err := startStandby(c.ctx, e, c.dir)
	if err != nil {
		return err
	}
	defer s.remove()
	if err := f(e, s); err != nil {
		return fmt.Errorf("%w\n%s", err, s.tail())
	}
	return nil
}

// follow measures how far the standby is behind under a load.
func (c *campaign) follow(trip time.Duration, e *ensemble, s *server, m *copied) error {
	if err := c.warm(e.target()); err != nil {
		return err
	}
	for range c.pairs {
		load := c.load(bench.Set, 6, 128)
		load.Rate, load.ValueSize = copiedRate, 100
		r, lags, err := lagsUnder(c.ctx, e, s, load)
		if err != nil {
			return err
		}
		slices.Sort(lags)
		at := func(share float64) float64 { return lags[int(share*float64(len(lags)-1))].Seconds() * 1e3 }
		m.rates, m.p50, m.p99 = append(m.rates, r.Rate), append(m.p50, at(0.5)), append(m.p99, at(0.99))
		fmt.Fprintf(c.log, "standby, %v: %.0f sets/s, %d probes, p50 %.1f ms, p99 %.1f ms\n", trip, r.Rate, len(lags), at(0.5), at(0.99))
	}
	return nil
}

// lose kills all servers of the ensemble at once while clients write.
func (c *campaign) lose(e *ensemble, s *server, m *copied) error {
	var lost time.Time
	acked, err := count(c.ctx, e.servers[0].addr, 2*time.Second, func() {
		for _, member := range e.servers {
			member.signal(syscall.SIGKILL)
		}
		lost = time.Now()
	})
	if err != nil {
		return err
	}
	within(c.ctx, time.Second) // what was on its way arrives
	first, err := firstMissing(c.ctx, s.addr, acked, lost)
	m.missing = append(m.missing, lost.Sub(first).Seconds()*1e3)
	return err
}

// startStandby starts a standby of an ensemble at the next site of its network, and waits until it serves.
func startStandby(ctx context.Context, e *ensemble, dir string) (*server, error) {
	n := len(e.servers)
	at, ports := e.wan.sites[n], e.spare
	s, err := newServer(e.program, dir, at, n+1, ports[0], fmt.Sprintf("server.%d=%s:%d:%d\n", n+1, at.peers, ports[1], ports[2]), adminOn, "standaloneEnabled=false", fmt.Sprint("admin.serverPort=", ports[3]))
	if err != nil {
		return nil, err
	}
	var of []string
	for i, member := range e.servers {
		_, port, _ := strings.Cut(member.admin, ":")
		of = append(of, "http://"+e.wan.sites[i].peers+":"+port)
	}
	auth := filepath.Join(s.dir, "auth")
	if err := os.WriteFile(auth, []byte("digest:bench:secret\n"), 0o600); err != nil {
		return nil, err
	}
	program := len(s.argv) - 2 // before it: what enters the site
	s.argv = slices.Insert(s.argv, program+1, "standby", "--of", strings.Join(of, ","), "--auth-file", auth)
	if err := s.start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cl, err := client.Connect(ctx, s.addr, client.Options{AllowReadOnly: true})
	if err != nil {
		err = fmt.Errorf("the standby does not serve: %w\n%s", err, s.tail())
		s.remove()
		return nil, err
	}
	return s, cl.Close(ctx)
}

// lagsUnder sets a node again and again while there is a load, and returns how long after its acknowledgement each set is seen at the
// standby.
func lagsUnder(ctx context.Context, e *ensemble, s *server, load bench.Config) (r bench.Result, lags []time.Duration, err error) {
	writer, err := client.Connect(ctx, e.servers[0].addr, client.Options{})
	if err != nil {
		return r, nil, err
	}
	defer writer.Close(ctx)
	if _, err := writer.Create(ctx, probe, nil, client.CreateOptions{}); err != nil && !errors.Is(err, client.ErrNodeExists) {
		return r, nil, err
	}
	reader, err := client.Connect(ctx, s.addr, client.Options{AllowReadOnly: true})
	if err != nil {
		return r, nil, err
	}
	defer reader.Close(ctx)

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	acked, seen := map[int32]time.Time{}, map[int32]time.Time{} // by version
	var work sync.WaitGroup
	work.Go(func() {
		for ctx.Err() == nil {
			st, err := writer.Set(ctx, probe, nil, client.AnyVersion)
			if err == nil {
				acked[st.Version] = time.Now()
			}
			within(ctx, probeEvery)
		}
	})
	work.Go(func() {
		var last int32
		for ctx.Err() == nil {
			st, err := reader.Exists(ctx, probe)
			if err == nil && st.Stat.Version > last {
				now := time.Now()
				for v := last + 1; v <= st.Stat.Version; v++ {
					seen[v] = now
				}
				last = st.Stat.Version
			}
			within(ctx, lookEvery)
		}
	})
	r, err = bench.Run(ctx, e.target(), load)
	stop()
	work.Wait()
	for v, at := range acked {
		if shown, ok := seen[v]; ok {
			lags = append(lags, shown.Sub(at))
		}
	}
	if err == nil && len(lags) < 100 {
		err = fmt.Errorf("the standby has shown %d of %d sets", len(lags), len(acked))
	}
	return r, lags, err
}
