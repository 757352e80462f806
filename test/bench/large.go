package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

// largeDirectory measures whether a request costs more in a directory with all znodes than
// in an empty one.
func (c *campaign) largeDirectory() error {
	what := fmt.Sprintf("directory of %d children", c.znodes)
	if !c.selected(what) {
		return nil
	}
	part := max(1, c.znodes/20)
	row := func(text, unit string) bench.Figure { return bench.Figure{Name: what + ", " + text, Unit: unit} }
	rows := []bench.Figure{
		row(fmt.Sprintf("server CPU of a create, the first %d", part), "us"),
		row(fmt.Sprintf("server CPU of a create, the last %d", part), "us"),
		row(fmt.Sprintf("server CPU of a delete, the first %d", part), "us"),
		row("latency p99 of exists of the directory", "us"),
	}
	return c.freshRounds(rows, func(e *ensemble) ([]float64, error) {
		cl, err := client.Connect(c.ctx, e.addrs(), client.Options{})
		if err != nil {
			return nil, err
		}
		if _, err := cl.Create(c.ctx, "/large", nil, client.CreateOptions{}); err != nil {
			return nil, errors.Join(err, cl.Close(c.ctx))
		}
		a, child := cl.Async(), func(i int64) string { return fmt.Sprintf("/large/child-%09d", i) }
		create := func(i int64, then func(error)) {
			a.Create(child(i), nil, client.CreateOptions{}, func(_ client.Created, err error) { then(err) })
		}
		remove := func(i int64, then func(error)) {
			a.Delete(child(i), -1, func(_ client.None, err error) { then(err) })
		}
		var values []float64
		for _, step := range []struct {
			from, to int64
			do       func(i int64, then func(error))
			counts   bool
		}{
			{0, part, create, true},
			{part, c.znodes - part, create, false},
			{max(part, c.znodes-part), c.znodes, create, true},
			{0, part, remove, true},
		} {
			cpu, err := e.cpuOf(func() error { return pipelined(step.from, step.to, step.do) })
			if err != nil {
				return nil, errors.Join(err, cl.Close(c.ctx))
			}
			if step.counts {
				values = append(values, float64(cpu.Nanoseconds())/1e3/float64(part))
			}
		}
		took, err := repeated(c.ctx, c.duration, func(ctx context.Context) error {
			p, err := cl.Exists(ctx, "/large")
			if err == nil && int64(p.Stat.NumChildren) != c.znodes-part {
				err = fmt.Errorf("the directory has %d children, not %d", p.Stat.NumChildren, c.znodes-part)
			}
			return err
		})
		return append(values, percentile(took, 99)), errors.Join(err, cl.Close(c.ctx))
	})
}

// deadRacks measures how the writes of one client suffer while sessions with many ephemerals together
// are closed at once.
func (c *campaign) deadRacks() error {
	return errors.Join(c.deadRack(1), c.deadRack(100), c.deadRack(5000))
}

func (c *campaign) deadRack(sessions int64) error {
	each := max(1, c.znodes/10/sessions)
	what := fmt.Sprintf("sessions closed at once, %d with %d ephemerals each", sessions, each)
	if !c.selected(what) {
		return nil
	}
	rows := []bench.Figure{
		{Name: what + ": others' writes p99 without that", Unit: "us"},
		{Name: what + ": others' writes p99 meanwhile", Unit: "us"},
		{Name: what + ": until all are gone", Unit: "ms"},
	}
	return c.freshRounds(rows, func(e *ensemble) (values []float64, err error) {
		other, err := client.Connect(c.ctx, e.addrs(), client.Options{})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, other.Close(c.ctx)) }()
		for _, path := range []string{"/rack", "/other"} {
			if _, err := other.Create(c.ctx, path, nil, client.CreateOptions{}); err != nil {
				return nil, err
			}
		}
		var rack []*client.Client
		closeRack := func() error { return atOnce(rack, func(cl *client.Client) error { return cl.Close(c.ctx) }) }
		for s := range sessions {
			cl, err := client.Connect(c.ctx, e.addrs(), client.Options{})
			if err != nil {
				return nil, errors.Join(err, closeRack())
			}
			rack = append(rack, cl)
			if err := pipelined(0, each, func(i int64, then func(error)) {
				o := client.CreateOptions{Mode: client.Ephemeral}
				cl.Async().Create(fmt.Sprintf("/rack/%d-%d", s, i), nil, o, func(_ client.Created, err error) { then(err) })
			}); err != nil {
				return nil, errors.Join(err, closeRack())
			}
		}
		write := func(ctx context.Context) error { _, err := other.Set(ctx, "/other", nil, -1); return err }
		before, err := repeated(c.ctx, c.duration, write)
		if err != nil {
			return nil, errors.Join(err, closeRack())
		}
		var gone time.Duration
		closed := make(chan error, 1)
		ctx, cancel := context.WithCancel(c.ctx)
		defer cancel()
		go func() {
			began := time.Now()
			err := closeRack()
			gone = time.Since(began)
			cancel()
			closed <- err
		}()
		meanwhile, err := repeated(ctx, startTimeout, write)
		if err := errors.Join(err, <-closed); err != nil {
			return nil, err
		}
		return []float64{percentile(before, 99), percentile(meanwhile, 99), gone.Seconds() * 1e3}, nil
	})
}

// addrs is the list of servers for a client.
func (e *ensemble) addrs() string { return strings.Join(e.target().Addrs, ",") }

// cpuOf returns the CPU time of all servers while f runs.
func (e *ensemble) cpuOf(f func() error) (time.Duration, error) {
	var sum time.Duration
	add := func(sign time.Duration) error {
		for _, pid := range e.target().Pids {
			cpu, err := bench.ProcessCPU(pid)
			if err != nil {
				return err
			}
			sum += sign * cpu
		}
		return nil
	}
	err := add(-1)
	if err == nil {
		err = f()
	}
	if err == nil {
		err = add(1)
	}
	return sum, err
}

// pipelined issues the requests from to to-1, up to 500 under way, and returns the first error
// when all are answered.
func pipelined(from, to int64, do func(i int64, then func(error))) error {
	var first error // written by the callbacks, which are one goroutine; read when all are done
	free := make(chan struct{}, 500)
	for i := from; i < to; i++ {
		free <- struct{}{}
		do(i, func(err error) {
			if first == nil {
				first = err
			}
			<-free
		})
	}
	for range cap(free) {
		free <- struct{}{}
	}
	return first
}

// repeated calls f one time after the other, and returns how many microseconds each call took.
// It ends without an error after d, or when ctx ends, but not before the first call.
func repeated(ctx context.Context, d time.Duration, f func(context.Context) error) (took []float64, err error) {
	for end := time.Now().Add(d); len(took) == 0 || time.Now().Before(end) && ctx.Err() == nil; {
		began := time.Now()
		// The last call is not cut short: its time counts most.
		if err := f(context.WithoutCancel(ctx)); err != nil {
			return took, err
		}
		took = append(took, time.Since(began).Seconds()*1e6)
	}
	return took, nil
}

// atOnce calls f for all clients concurrently.
func atOnce(clients []*client.Client, f func(*client.Client) error) error {
	errs := make([]error, len(clients))
	var wg sync.WaitGroup
	for i, cl := range clients {
		wg.Go(func() { errs[i] = f(cl) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
