package sim

import (
	"flag"
	"testing"

	"github.com/zkd-project/zkd/server/zab/behavior"
)

var (
	behaviorFlag  = flag.String("behaviors", "", "TestBehaviors: write the behaviors of runs for TLC to this file")
	behaviorSteps = flag.Int("behaviorsteps", 1500, "TestBehaviors: steps of each run")
)

// TestBehaviors writes the behaviors of runs: those of -seed and -seeds, with a few servers and few steps. scripts/spec.sh has TLC judge them.
func TestBehaviors(t *testing.T) {
	writeBehaviors(t, func(r Result) { report(t, r) })
}

// writeBehaviors writes the behaviors of runs, and calls failed with each that the simulator finds wrong.
func writeBehaviors(t *testing.T, failed func(Result)) {
	var runs []behavior.Run
	steps := 0
	for seed := max(*seedFlag, 1); seed < max(*seedFlag, 1)+uint64(*seedsFlag); seed++ {
		run, r := Behavior(specified(Draw(seed, *behaviorSteps)))
		runs = append(runs, run)
		steps += len(run.Steps)
		if r.Failure != nil {
			failed(r)
		}
	}
	if steps < 20**seedsFlag {
		t.Errorf("%d steps in %d runs: next to nothing happens", steps, *seedsFlag)
	}
	if *behaviorFlag == "" {
		return
	}
	if err := behavior.WriteModule(*behaviorFlag, runs); err != nil {
		t.Fatal(err)
	}
}

// specified returns cfg without what the specification leaves out, and with the servers that scripts/spec.sh names.
func specified(cfg Config) Config {
	for _, f := range []Fault{FaultWipe, FaultDamage, FaultRollback, FaultMembers, FaultFiles, FaultOldCopy, FaultBadSync, FaultVolumes, FaultBadSnaps, FaultGone, FaultShort} {
		cfg.Faults[f] = 0
	}
	cfg.WAL, cfg.Capacity, cfg.InitialCounter, cfg.Groups, cfg.OddFile, cfg.AutopilotMs, cfg.Site = false, 0, 0, 0, false, 0, SiteStays
	cfg.Voters, cfg.Observers, cfg.Joiners, cfg.ChaosOnly = 3, min(cfg.Observers, 1), 0, true
	return cfg
}

// plant plants the fault with the given name. Only builds with the tag zabmutants have it.
var plant func(t *testing.T, name string) (remove func())
