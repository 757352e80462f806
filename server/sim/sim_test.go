package sim

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "TestSim: run this seed, and those behind it; 0 runs a few fixed ones")
	stepsFlag = flag.Int("steps", 3000, "TestSim: steps of chaos in each run")
	seedsFlag = flag.Int("seeds", 1, "TestSim: how many seeds to run")
	traceFlag = flag.Int("trace", 200, "TestSim: lines of the trace of a failed run")
)

// TestSim runs random ensembles. With -args -seed it is the campaign of make sim.
func TestSim(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1600)) // a run leaves little, and makes much garbage
	first, seeds, steps := uint64(1), 300, 3000
	if testing.Short() {
		seeds = 50
	}
	if *seedFlag != 0 {
		first, seeds, steps = *seedFlag, *seedsFlag, *stepsFlag
	}
	var sum Stats
	total, start, shown := 0, time.Now(), time.Now()
	for i := range seeds {
		cfg := Draw(first+uint64(i), steps)
		r := Run(cfg)
		sum.Add(&r.Stats)
		total += r.Steps
		if r.Failure != nil {
			report(t, r)
			return
		}
		if *seedFlag != 0 && time.Since(shown) > 10*time.Second {
			shown = time.Now()
			t.Logf("%d seeds, %.1f seeds/s, %.0f steps/s", i+1, float64(i+1)/time.Since(start).Seconds(), float64(total)/time.Since(start).Seconds())
		}
	}
	took := time.Since(start).Seconds()
	t.Logf("%d seeds from %d, %d steps, %.1f s: %.0f steps/s, %.1f seeds/s\n%v", seeds, first, total, took, float64(total)/took, float64(seeds)/took, &sum)
	t.Logf("counts: seeds=%d steps=%d violations=0 elections=%d crashes=%d answers=%d", seeds, total, sum.Elections, sum.Crashes, sum.Answered)
}

// report prints a failed run so that it can be repeated and analyzed.
func report(t *testing.T, r Result) {
	t.Helper()
	Trace(r.Config, os.Stderr, *traceFlag)
	small := Shrink(r)
	t.Errorf("make sim SEED=%d STEPS=%d\n%v\n%v\nsmaller: %v\n%v", r.Config.Seed, r.Config.Steps, &r.Config, r.Failure, &small.Config, small.Failure)
}

// TestReplay runs some seeds twice: both runs must be identical.
func TestReplay(t *testing.T) {
	for seed := uint64(1000); seed < 1020; seed++ {
		cfg := Draw(seed, 2000)
		a, b := Run(cfg), Run(cfg)
		if a.Hash != b.Hash || a.Steps != b.Steps {
			t.Errorf("seed %d: %d steps and hash %x, then %d and %x", seed, a.Steps, a.Hash, b.Steps, b.Hash)
		}
	}
}
