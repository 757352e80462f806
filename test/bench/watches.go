package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

// manyWatches measures the memory of very many watches, each of another node, and how long
// the requests of another client take while they are set, while all of them are fired, and
// while the sessions that have them are closed at once.
func (c *campaign) manyWatches() error {
	what := fmt.Sprintf("%d watches", c.znodes)
	if !c.selected(what) {
		return nil
	}
	rows := []bench.Figure{{Name: what + ", growth of resident for each", Unit: "bytes"}}
	for _, when := range []string{"before", "while they are set", "while they are fired", "while they are dropped"} {
		rows = append(rows, bench.Figure{Name: what + ", others' p99 " + when, Unit: "ms"},
			bench.Figure{Name: what + ", others' longest " + when, Unit: "ms"})
	}
	return c.freshRounds(rows, func(e *ensemble) (values []float64, err error) {
		other, err := client.Connect(c.ctx, e.addrs(), client.Options{})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, other.Close(context.WithoutCancel(c.ctx))) }()
		if _, err := other.Create(c.ctx, "/other", nil, client.CreateOptions{}); err != nil {
			return nil, err
		}
		empty := func() error { return nil }
		defer func() { err = errors.Join(err, empty()) }()
		var figures []float64
		probe := func(f func() error) error {
			took, err := c.meanwhile(other, f)
			if err == nil {
				figures = append(figures, percentile(took, 99)/1e3, slices.Max(took)/1e3)
			}
			return err
		}
		set := func() (err error) { empty, err = c.watch(e, bench.Get, int(c.znodes)); return err }
		if err := probe(func() error { return nil }); err != nil {
			return nil, err
		}
		before, err := e.resident()
		if err != nil {
			return nil, err
		}
		if err := probe(set); err != nil {
			return nil, err
		}
		after, err := e.resident()
		if err != nil {
			return nil, err
		}
		if err := probe(func() error { return c.createWatched(e) }); err != nil {
			return nil, err
		}
		if err := errors.Join(empty(), set()); err != nil {
			return nil, err
		}
		if err := probe(func() error { drop := empty; empty = func() error { return nil }; return drop() }); err != nil {
			return nil, err
		}
		return append([]float64{(after - before) / float64(c.znodes)}, figures...), nil
	})
}

// createWatched creates the nodes of [campaign.watch].
func (c *campaign) createWatched(e *ensemble) error {
	cl, err := client.Connect(c.ctx, e.addrs(), client.Options{})
	if err != nil {
		return err
	}
	err = pipelined(0, c.znodes, func(i int64, then func(error)) {
		cl.Async().Create(fmt.Sprintf("/watched-%d", i), nil, client.CreateOptions{}, func(_ client.Created, err error) { then(err) })
	})
	return errors.Join(err, cl.Close(context.WithoutCancel(c.ctx)))
}

// meanwhile returns how many microseconds a get and a set of another client take while f
// runs, and for the duration of a measurement after that.
func (c *campaign) meanwhile(other *client.Client, f func() error) ([]float64, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := f()
		cancel()
		ended <- err
	}()
	turn := 0
	request := func(ctx context.Context) (err error) {
		if turn++; turn%2 == 0 {
			_, err = other.Get(ctx, "/other")
		} else {
			_, err = other.Set(ctx, "/other", nil, -1)
		}
		return err
	}
	took, err := repeated(ctx, 5*time.Minute, request)
	if err == nil {
		var rest []float64
		rest, err = repeated(c.ctx, c.duration, request)
		took = append(took, rest...)
	}
	return took, errors.Join(err, <-ended)
}
