package sim

import "testing"

// fatals has clients that make writes which can't be evaluated.
func fatals(c *Config) {
	trees(c)
	c.TreePct, c.FatalPct, c.BigPct, c.Rate, c.GuardPct = 0, 30, 0, 0, 0
	c.Feeds, c.Streams, c.Views, c.Local, c.DeafPct, c.MovePct = 0, 0, 0, 0, 0, 0
	c.ThinkUs, c.FsyncUs, c.NetUs, c.Steps = c.ElectionMs*20, 5000, 300, 6000
	c.DropPct, c.DupPct, c.ReorderPct = 0, 0, 0
	c.Faults = [numFaults]uint64{}
	c.Faults[FaultTransfer], c.Faults[FaultKill] = c.ElectionMs*10, c.ElectionMs*20
}

// trees has clients that write by operations of extensions.
func trees(c *Config) { c.Clients, c.TreePct, c.Pipeline = 5, 80, 16 }

// A leader refuses the writes that it can't evaluate, and continues.
func TestFatalWrites(t *testing.T) {
	fatal := sum(t, 10, fatals, func(s *Stats) int { return s.Fatal })
	if t.Logf("leaders panicked %d times", fatal); fatal < 20 {
		t.Errorf("leaders panicked only %d times", fatal)
	}
}

// sum runs so many seeds of a configuration, and returns the sum of a figure.
func sum(t *testing.T, seeds uint64, tune func(*Config), figure func(*Stats) int) (all int) {
	t.Helper()
	for seed := range seeds {
		cfg := Draw(seed+1, 2000)
		tune(&cfg)
		r := Run(cfg)
		if r.Failure != nil {
			t.Fatalf("seed %d: %v", seed+1, r.Failure)
		}
		all += figure(&r.Stats)
	}
	return all
}
