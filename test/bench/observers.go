package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/internal/bench"
)

// observedVoters is how many servers vote in the ensembles that have observers.
const observedVoters = 3

// parseObservers reads a list of numbers of observers, like 0,6,12; an empty one has none.
func parseObservers(list string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	var numbers []int
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || n > 100 {
			return nil, fmt.Errorf("observers: %q in %q: want numbers from 0 to 100", word, list)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// observe measures what writes through the followers cost the leader, for each number of observers.
func (c *campaign) observe() error {
	c.servers = observedVoters
	for _, n := range c.observers {
		c.observing = n
		what := fmt.Sprintf("set 1 KiB, %d observers", n)
		rows := []bench.Figure{{Name: what + ", the leader's CPU per operation", Unit: "us"}, {Name: what + ", operations", Unit: "/s"}}
		if err := c.freshRounds(rows, c.observed); err != nil {
			return fmt.Errorf("%d observers: %w", n, err)
		}
	}
	return nil
}

// observed returns the leader's CPU time per write, in microseconds, and how many writes there are in a second.
func (c *campaign) observed(e *ensemble) ([]float64, error) {
	leader, followers, err := e.roles(c.ctx)
	if err != nil {
		return nil, err
	}
	target := e.targetOf(followers...)
	target.Pids = []int{leader.cmd.Process.Pid}
	r, err := bench.Run(c.ctx, target, c.load(bench.Set, 6, 64))
	if err == nil {
		err = c.ctx.Err()
	}
	return []float64{r.Server.CPUPerThousand * 1e3, r.Rate}, err
}
