package sim

import (
	"flag"
	"testing"
)

var (
	mutantFlag  = flag.String("mutant", "", "mutants: only this one")
	mutantSeeds = flag.Int("mutantseeds", 1000, "mutants: how many seeds each gets")
)

// TestMutantsOfNodes plants each fault of the nodes, which some run must find.
func TestMutantsOfNodes(t *testing.T) {
	for _, m := range Mutants() {
		if *mutantFlag != "" && *mutantFlag != m.String() {
			continue
		}
		t.Run(m.String(), func(t *testing.T) {
			hunt(t, m.String(), func(c *Config) { c.Mutant = m })
		})
	}
}

// hunt runs seeds until one fails. Every other run has the conditions under which
// the mutant shows most easily.
func hunt(t *testing.T, name string, plant func(*Config)) {
	t.Helper()
	for i := range *mutantSeeds {
		cfg := Draw(uint64(i)+1, 2000)
		if focus := focuses[name]; focus != nil && i&1 != 0 {
			focus(&cfg)
		}
		plant(&cfg)
		if r := Run(cfg); r.Failure != nil {
			t.Logf("seed %d: %v", cfg.Seed, r.Failure)
			return
		}
	}
	if script := directed[name]; script != nil {
		if f := broken(script); f != nil {
			t.Logf("only the script finds it: %v", f)
			return
		}
	}
	t.Errorf("%d seeds did not find it", *mutantSeeds)
}

// often makes faults come about once in an election.
func often(c *Config, faults ...Fault) {
	for _, f := range faults {
		c.Faults[f] = c.ElectionMs
	}
	c.ChaosOnly = true
}

// focuses are the conditions, by mutant. Those that a few runs of any kind find
// need none.
var focuses = map[string]func(*Config){
	"no-postpone": func(c *Config) {
		c.SessionMs = c.ElectionMs / 2
		c.SkewPct = 0
		often(c, FaultPause)
	},
	"no-lease": dozers,
	"no-hold": func(c *Config) {
		dozers(c)
		c.ThinkUs, c.Faults = c.ElectionMs*500, [numFaults]uint64{}
		often(c, FaultPause, FaultSlow)
	},
	"double-close":  func(c *Config) { c.ClosePct, c.Pipeline, c.Clients = 50, 16, 5 },
	"damage-unseen": func(c *Config) { often(c, FaultDamage, FaultKill) },
	"old-epoch-committed-by-counting": func(c *Config) {
		c.Voters, c.Observers, c.BatchBytes, c.WindowBytes, c.FsyncUs = 3, 0, 1, 1, 5000
		often(c, FaultPower, FaultBreak)
	},
	"promise-without-history-check": func(c *Config) {
		c.Voters, c.Observers = 3, 0
		c.DialMs, c.FsyncUs = 5, 15000
		often(c, FaultBreak, FaultStall, FaultPower, FaultTransfer)
	},
	"epoch-reused-after-restart": func(c *Config) {
		c.Voters, c.Observers = 3, 0
		often(c, FaultPower, FaultInside, FaultKill)
	},
	"wiped-server-votes":   func(c *Config) { often(c, FaultWipe, FaultPower, FaultPartition) },
	"one-configs-quorum":   func(c *Config) { often(c, FaultMembers, FaultBreak, FaultPartition, FaultPause) },
	"read-without-round":   staleReads,
	"read-round-too-early": staleReads,
	"one-lane":             slowWays,
	"counter-wraps":        func(c *Config) { c.InitialCounter = 0xfffffff0 },
	"transfer-without-ack": func(c *Config) { often(c, FaultTransfer, FaultSlow, FaultStall) },
}

// slowWays has large values that take longer than heartbeats may be missing, and
// snapshots that take several elections.
func slowWays(c *Config) {
	c.Voters, c.Observers, c.Clients = 3, 0, 2
	c.SessionMs, c.ThinkUs = c.ElectionMs*8, c.ElectionMs*50
	c.Rate = 100
	c.SnapBytes = int64(c.Rate * c.ElectionMs * 5)
	c.BigBytes, c.BigPct = int(c.Rate*c.ElectionMs*2), 1
	c.DropPct, c.DupPct, c.ReorderPct = 0, 0, 0
	c.Faults = [numFaults]uint64{}
}

// dozers has many clients that are silent for nearly as long as they may, and
// servers whose reports come late.
func dozers(c *Config) {
	c.Clients, c.DozePct, c.SkewPct, c.ClosePct, c.Pipeline = 5, 30, 0, 0, 1
	c.SessionMs, c.ThinkUs = c.ElectionMs*2, c.ElectionMs*50
	often(c, FaultBlock, FaultPause, FaultPartition, FaultStall)
}

// staleReads lets a leader that hands over hear old answers late, and new ones
// not at all.
func staleReads(c *Config) {
	c.Clients, c.Pipeline, c.Voters, c.Observers = 5, 16, 3, 0
	c.ThinkUs, c.NetUs, c.FsyncUs, c.ApplyUs, c.Steps = c.ElectionMs*50, c.ElectionMs*15, 50, 0, 10000
	c.DropPct, c.DupPct, c.ReorderPct, c.LazyPct, c.SkewPct = 30, 0, 50, 0, 0
	c.SessionMs = c.ElectionMs * 8
	c.Faults = [numFaults]uint64{}
	often(c, FaultTransfer)
}

// directed are scripts for what random runs find too rarely: a moment between
// two events of which each is rare.
var directed = map[string]func(*script){
	"read-round-too-early":          deposedReads,
	"read-without-round":            deposedReads,
	"promise-without-history-check": lateCandidate,
	"follow-restarts":               slowAnswers,
}

// broken plays a script and returns what went wrong.
func broken(do func(*script)) (f *Failure) {
	cfg := quiet(3)
	cfg.Clients, cfg.ElectionMs = 0, 2000
	s := &script{Sim: newSim(cfg)}
	defer func() {
		f, _ = recover().(*Failure)
	}()
	s.begin()
	do(s)
	return nil
}
