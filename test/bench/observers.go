package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

// observedVoters is how many servers vote in the ensembles that have observers.
const observedVoters = 3

// parseObservers reads a list of numbers of observers, like 1,6,12; an empty one has none.
func parseObservers(list string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	var numbers []int
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 100 {
			return nil, fmt.Errorf("observers: %q in %q: want numbers from 1 to 100", word, list)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// observedRate is how many writes a second either ensemble gets.
const observedRate = 1500

// observe measures what an observer costs the leader, for each number of observers. Beside each ensemble with observers
// there is one without, which gets as many writes at the same time. So both leaders wait for the same processors:
// on a busy machine more writes share a batch, which makes each cheaper than on an idle one, with or without observers.
func (c *campaign) observe() error {
	c.servers = observedVoters
	for _, n := range c.observers {
		what := fmt.Sprintf("set 1 KiB, %d observers", n)
		rows := []bench.Figure{
			{Name: what + ", the leader's CPU per operation", Unit: "us"},
			{Name: what + ", that of a leader without observers beside it", Unit: "us"},
			{Name: what + ", cost of each observer", Unit: "%"},
		}
		err := c.turns(c.rounds, rows, func(side int) (values []float64, err error) {
			err = c.withObservers(c.program(side), n, func(observed, plain *ensemble) error {
				values, err = c.observed(observed, plain, n)
				return err
			})
			return values, err
		})
		if err != nil {
			return fmt.Errorf("%d observers: %w", n, err)
		}
	}
	return nil
}

// withObservers calls f with a fresh ensemble that has n observers and one that has none.
func (c *campaign) withObservers(program string, n int, f func(observed, plain *ensemble) error) error {
	c.observing = n
	return c.with(program, func(observed *ensemble) error {
		c.observing = 0
		return c.with(program, func(plain *ensemble) error { return f(observed, plain) })
	})
}

// observed writes to both ensembles at once. It returns the CPU time of either leader per write, in microseconds, and
// how much more of it each of the n observers costs, in percent.
func (c *campaign) observed(observed, plain *ensemble, n int) ([]float64, error) {
	ensembles := [...]*ensemble{observed, plain}
	var cpu [len(ensembles)]float64
	var errs [len(ensembles)]error
	var wg sync.WaitGroup
	for i, e := range ensembles {
		wg.Go(func() { cpu[i], errs[i] = c.leaderCPU(e) })
	}
	wg.Wait()
	err := errors.Join(errs[:]...)
	return []float64{cpu[0], cpu[1], 100 * (cpu[0]/cpu[1] - 1) / float64(n)}, err
}

// leaderCPU returns the leader's CPU time per write, in microseconds, for writes through the followers.
func (c *campaign) leaderCPU(e *ensemble) (float64, error) {
	leader, followers, err := e.roles(c.ctx)
	if err != nil {
		return 0, err
	}
	target := e.targetOf(followers...)
	target.Pids = []int{leader.cmd.Process.Pid}
	load := c.load(bench.Set, 6, 64)
	load.Rate = observedRate
	r, err := bench.Run(c.ctx, target, load)
	if err == nil {
		err = c.ctx.Err()
	}
	return r.Server.CPUPerThousand * 1e3, err
}
