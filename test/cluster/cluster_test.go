package cluster

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// selected are the faults that -fault names.
func selected(list []fault) []fault {
	wanted := regexp.MustCompile(*only)
	return slices.DeleteFunc(slices.Clone(list), func(f fault) bool { return !wanted.MatchString(f.name) })
}

// brief are the faults of an ordinary run.
var brief = []string{"kill leader", "pause leader", "hold leader", "kill all", "disk of leader is full"}

// briefly returns the short list if -fault names no other.
func briefly(list []fault) []fault {
	if *only != "" {
		return selected(list)
	}
	return slices.DeleteFunc(list, func(f fault) bool { return !slices.Contains(brief, f.name) })
}

// TestFaults has three servers go through the main faults, or those of -fault.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Log("no ensembles in short runs")
		return
	}
	t.Parallel()
	c := newCampaign(t, shape{voters: 3})
	for _, f := range briefly(everyFault()) {
		c.round(f)
		if t.Failed() {
			return
		}
	}
	c.summary()
}

// TestKill kills servers over and over, and sees after each round that nothing is
// lost.
func TestKill(t *testing.T) {
	if testing.Short() {
		return
	}
	t.Parallel()
	c := newCampaign(t, shape{voters: 3})
	list := selected(slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return !strings.HasPrefix(f.name, "kill") }))
	for n := 1; n <= *rounds && !t.Failed(); n++ {
		c.round(list[c.rng.IntN(len(list))])
		if n%50 == 0 {
			c.summary()
		}
	}
	c.summary()
}

// TestSoak goes from fault to fault for as long as -time says, in an ensemble of
// three, and in one of five with an observer.
func TestSoak(t *testing.T) {
	if *soakTime == 0 {
		t.Log("-time says how long")
		return
	}
	for _, of := range []shape{{voters: 3}, {voters: 5, observers: 1}} {
		t.Run(fmt.Sprintf("%d+%d", of.voters, of.observers), func(t *testing.T) {
			c := newCampaign(t, of)
			list := selected(everyFault())
			for end := time.Now().Add(*soakTime / 2); time.Now().Before(end) && !t.Failed(); {
				c.round(list[c.rng.IntN(len(list))])
			}
			c.summary()
		})
	}
}

// summary logs the figures of all rounds so far.
func (c *campaign) summary() {
	s := &c.sum
	c.Logf("after %v, %d rounds: %d ops, %d writes acknowledged and found, %d ops without answer, %d events, %d ops for Porcupine, sessions resumed in time %d times",
		time.Since(c.began).Round(time.Second), c.rounds, s.ops, s.acknowledged, s.unanswered, s.events, s.linearizable, s.resumed)
	for name, gaps := range s.gaps {
		slices.Sort(gaps)
		c.Logf("longest time without a write, %s: median %v, most %v (%d rounds)", name, gaps[len(gaps)/2], gaps[len(gaps)-1], len(gaps))
	}
}
