package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
)

// wideServers is the size of the ensembles whose servers are far from each other.
const wideServers = 3

// parseTrips reads a list of round trips in milliseconds, like 1,20,100; an empty one has none.
func parseTrips(list string) ([]time.Duration, error) {
	if list == "" {
		return nil, nil
	}
	var trips []time.Duration
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 1000 {
			return nil, fmt.Errorf("wide: %q in %q: want round trips in milliseconds, from 1 to 1000", word, list)
		}
		trips = append(trips, time.Duration(n)*time.Millisecond)
	}
	return trips, nil
}

// wide measures ensembles whose servers are far from each other, each client beside its server.
func (c *campaign) wide() error {
	c.servers = wideServers
	for _, trip := range c.trips {
		c.far = trip / 2
		err := c.withBoth(func(a, b *ensemble) error {
			for _, e := range []*ensemble{a, b} {
				if err := c.warm(e.target()); err != nil {
					return err
				}
			}
			for _, r := range c.wideRaces(trip) {
				if !c.selected(r.name) {
					continue
				}
				if err := c.race(a, b, r); err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
			}
			killed := fault{farName(trip, "leader killed with -9"), c.pairs, (*server).kill, (*server).start}
			if !c.selected(killed.name) {
				return nil
			}
			return c.strikeAll([]*ensemble{a, b}, killed)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// farName is the name of a row about servers with a round trip between them.
func farName(trip time.Duration, what string) string {
	return fmt.Sprintf("%v round trip, %s", trip, what)
}

// wideRaces are the loads on servers with a round trip between them.
func (c *campaign) wideRaces(trip time.Duration) []race {
	name := func(what string) string { return farName(trip, what) }
	lone, many := []string{figureP50, figureP99}, []string{figureRate, figureP50, figureP99}
	one := c.load(bench.Set, 1, 1)
	one.Keys = 10 // to make a key takes a round trip or two as well
	return []race{
		{name("lone set 1 KiB, through the leader"), one, lone, onLeader},
		{name("lone set 1 KiB, through a follower"), one, lone, onFollower},
		{name("set 1 KiB, 6 connections of 128"), c.load(bench.Set, 6, 128), many, nil},
	}
}
