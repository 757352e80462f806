package ensemble

import (
	"slices"
	"strconv"
	"time"

	"github.com/zkd-project/zkd/cmd/zkcli/why"
	"github.com/zkd-project/zkd/server/api"
)

const (
	// loadStep is the time between two samples of the load.
	loadStep = time.Minute
	// loadSpan is the time for which samples are kept.
	loadSpan = time.Hour
)

// load is what the members did in the last hour.
type load struct {
	samples []api.Load
	counted map[string]counters // of each member, at the last sample
}

// counters are what a member has counted since it started.
type counters struct {
	requests, answered int64   // packets from clients, and requests whose latency was measured
	latency            float64 // the sum, in ms
}

// countersOf returns the counters of a member that tells them.
func countersOf(s *why.Server) (c counters, ok bool) {
	number := func(name string) float64 {
		n, err := strconv.ParseFloat(s.After.Metrics[name], 64)
		ok = ok && err == nil
		return n
	}
	ok = true
	c.requests = int64(number("packets_received"))
	c.answered = int64(number("cnt_readlatency") + number("cnt_updatelatency"))
	c.latency = number("sum_readlatency") + number("sum_updatelatency")
	return c, ok
}

// note adds a sample if the last one is old enough. A member that was not there at both times, or that has begun to count from 0
// meanwhile, is left out of it.
func (l *load) note(at int64, members []why.Server) {
	var last int64
	if n := len(l.samples); n > 0 {
		last = l.samples[n-1].At
	}
	if at < last+loadStep.Milliseconds()*9/10 { // the members' answers take more and less time
		return
	}
	sample := api.Load{At: at, Requests: -1, LatencyMs: -1}
	counted := make(map[string]counters)
	for i := range members {
		now, ok := countersOf(&members[i])
		if !ok {
			continue
		}
		name := members[i].Name
		counted[name] = now
		before, known := l.counted[name]
		if !known || now.requests < before.requests || now.answered < before.answered {
			continue
		}
		sample.Requests = max(sample.Requests, 0) + (now.requests-before.requests)*1000/(at-last)
		if n := now.answered - before.answered; n > 0 {
			sample.LatencyMs = max(sample.LatencyMs, (now.latency-before.latency)/float64(n))
		}
	}
	l.counted = counted
	old := func(s api.Load) bool { return s.At < at-loadSpan.Milliseconds() }
	l.samples = append(slices.DeleteFunc(slices.Clone(l.samples), old), sample) // the slice of before is in answers
}
