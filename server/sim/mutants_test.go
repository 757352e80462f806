//go:build zabmutants

package sim

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/server/clients/line"
)

var (
	mutantFlag  = flag.String("mutant", "", "mutants: only this one")
	mutantSeeds = flag.Int("mutantseeds", 0, "mutants: count which of so many random runs find each, instead of stopping at the first")
)

// mutantLimit is how many random runs may fail to find a mutant. A mutant that usually
// takes more than a tenth of them needs a focus or a script: otherwise a change elsewhere,
// which gives each seed another run, might hide it.
const mutantLimit = 1000

// TestMutants plants each fault of the packages that the simulator runs. A script or a random run must find it.
func TestMutants(t *testing.T) {
	for _, m := range mutant.All() {
		if slices.Contains(byPages, m.String()) {
			continue
		}
		testMutant(t, m)
	}
	if *mutantFlag == "" && !t.Failed() {
		t.Logf("counts: faults=%d", len(mutant.All()))
	}
}

// TestFindersHaveMutants checks that the mutant of each focus and of each script exists.
func TestFindersHaveMutants(t *testing.T) {
	known := make(map[string]bool)
	for _, m := range mutant.All() {
		known[m.String()] = true
	}
	for name := range focuses {
		if !known[name] {
			t.Errorf("focuses has %q, which is no mutant", name)
		}
	}
	for name := range directed {
		if !known[name] {
			t.Errorf("directed has %q, which is no mutant", name)
		}
	}
}

// during calls run with the fault planted, and returns the failure noticed.
func during(m mutant.Mutant, cfg Config, run func(Config) *Failure) *Failure {
	defer m.Plant()()
	return run(cfg)
}

// testMutant checks that a planted fault is found.
func testMutant(t *testing.T, m mutant.Mutant) {
	if *mutantFlag != "" && *mutantFlag != m.String() {
		return
	}
	t.Run(m.String(), func(t *testing.T) {
		found := find(t, m)
		if *mutantSeeds > 0 {
			found = countFinds(t, m) || found
		}
		if !found {
			t.Error("nothing finds this fault: give it a line in focuses or in directed")
		}
	})
}

// find reports whether a planted fault is found. If there is a script for the fault, only
// the script is used.
func find(t *testing.T, m mutant.Mutant) bool {
	t.Helper()
	if script := directed[m.String()]; script != nil {
		play := func(cfg Config) *Failure { return broken(cfg, script) }
		cfg := scriptConfig()
		switch m.String() {
		case "founder-votes":
			play = func(cfg Config) *Failure { return brokenFrom(cfg, script) }
		case "ignored-endlessly":
			cfg.LateHellos = true
		case "conns-kept":
			cfg = snapshotting()
			cfg.Clients = 0
		case "reset-forgotten":
			cfg = remembering()
		case "waiting-ignored":
			shortSessions(&cfg)
		case "mark-kept":
			piloted(&cfg)
		case "closings-unbounded", "closings-until-commit", "closings-forgotten":
			rack(&cfg)
		case "doomed-served": // where the history says whose a session is, the other server does not serve it either
			rack(&cfg)
			cfg.MixedMs = 1 << 40
		case "last-refused", "refused-silently":
			cfg = waitingLimited()
		case "places-kept":
			cfg = crowding()
			cfg.Observers = 2
		case "change-forgotten":
			cfg.Voters = 5
		case "touches-forgotten":
			longSessions(&cfg)
			cfg.InterludeMs = 0
		case "lost-touches", "timeout-forgotten", "owners-forgotten", "earlier-barriers", "dead-barriers-kept":
			longSessions(&cfg)
		case "own-lease-waited", "unbounded-lease":
			slowElections(&cfg)
		case "two-kept", "shortage-untold", "forget-waits", "reserve-taken", "kept-taken", "snapshot-again":
			cfg = small()
		case "rounds-cut-short":
			farAway(&cfg)
		}
		return finds(t, m, cfg, play)
	}
	for seed := range uint64(mutantLimit) {
		if finds(t, m, drawFor(seed+1, focuses[m.String()]), random) {
			return true
		}
	}
	return false
}

// finds reports whether a run notices a planted fault. The same run without the fault must
// notice nothing.
func finds(t *testing.T, m mutant.Mutant, cfg Config, run func(Config) *Failure) bool {
	t.Helper()
	f := during(m, cfg, run)
	if f == nil {
		return false
	}
	t.Logf("seed %d: %v", cfg.Seed, f)
	if f := run(cfg); f != nil {
		t.Errorf("seed %d fails without the planted fault: %v", cfg.Seed, f)
	}
	return true
}

// random is a random run.
func random(cfg Config) *Failure { return Run(cfg).Failure }

// drawFor draws the configuration of a random run, with a focus unless it is nil.
func drawFor(seed uint64, focus func(*Config)) Config {
	cfg := Draw(seed, 2000)
	if focus != nil {
		focus(&cfg)
	}
	return cfg
}

// countFinds measures the strength of the simulator: how many random runs find a planted
// fault, with its focus and without. It reports whether any does.
func countFinds(t *testing.T, m mutant.Mutant) (found bool) {
	t.Helper()
	for _, focus := range []func(*Config){nil, focuses[m.String()]} {
		count := 0
		for seed := range uint64(*mutantSeeds) {
			if during(m, drawFor(seed+1, focus), random) != nil {
				count++
			}
		}
		t.Logf("found by %d of %d runs (with focus: %v)", count, *mutantSeeds, focus != nil)
		found = found || count > 0
		if focuses[m.String()] == nil {
			break
		}
	}
	return found
}

// often makes faults occur about once per election.
func often(c *Config, faults ...Fault) {
	for _, f := range faults {
		c.Faults[f] = c.ElectionMs
	}
	c.ChaosOnly = true
}

// behindEdges has all clients behind edges, which lose their connections again and again, while clients watch.
func behindEdges(c *Config) {
	c.Carriers, c.Edges, c.Cached, c.Away, c.WatchPct, c.Pipeline, c.ClosePct = 0, 1, 0, false, 60, 16, 0
	c.Local, c.MixedMs, c.BigPct, c.MovePct, c.DozePct, c.DeafPct, c.MaxFeeds, c.Loud = 0, 0, 0, 0, 0, 0, 0, 0
	c.FeedBytes, c.SessionMs, c.Capacity, c.HerdPct = 1<<18, c.ElectionMs*8, 0, 0
	c.Site, c.Standbys = SiteStays, 0
	c.Steps, c.Clients, c.Voters, c.Observers, c.Joiners, c.Streams, c.TreePct = 8000, 5, 3, 0, 0, 0, 0
	c.ThinkUs, c.NetUs, c.FsyncUs, c.ApplyUs, c.WorkUs, c.Rate, c.LazyPct = c.ElectionMs*5, 200, 300, 0, 0, 0, 0
	c.Faults = [numFaults]uint64{}
	often(c, FaultEdge)
	c.Faults[FaultEdge] = max(1, c.ElectionMs/4)
}

// carries has edges whose connections carry the sessions of many clients, and which lose, stall and quit them.
func carries(c *Config) {
	behindEdges(c)
	c.Carriers, c.Window, c.MaxOut = 1, pick(rand.New(rand.NewPCG(c.Seed, 0)), 60, 300, 2000), 1000
	c.DeafPct, c.Unread, c.HangPct, c.Faults[FaultEdge] = 2, line.UnreadLimit, 30, c.ElectionMs
}

// carriesEvents has edges with memories, to which the events of a transaction come one by one.
func carriesEvents(c *Config) {
	behindEdges(c)
	c.Carriers, c.Window, c.MaxOut, c.Cached, c.Pipeline, c.ThinkUs = 1, 60, 300, 2, 1, 2000
	c.Steps, c.TreePct, c.WatchPct, c.Faults[FaultEdge] = 16000, 30, 30, c.ElectionMs*4
}

// carriesIdle has clients that do little but ping.
func carriesIdle(c *Config) {
	carries(c)
	c.Steps, c.ThinkUs, c.Faults[FaultEdge], c.SessionMs = 20000, c.ElectionMs*200, c.ElectionMs*5, c.ElectionMs*16
}

// behindSilence has servers that are silent.
func behindSilence(c *Config) {
	behindEdges(c)
	c.Steps, c.ThinkUs, c.Faults[FaultEdge] = 20000, c.ElectionMs*200, c.ElectionMs*20
}

// behindMemories has edges that answer reads from memory.
func behindMemories(c *Config) {
	behindEdges(c)
	c.Cached, c.Pipeline = 1+int(c.Seed%2), 1+int(c.Seed%3)
}

// twoMemories has edges that follow two nodes.
func twoMemories(c *Config) {
	behindMemories(c)
	c.Cached = 2
}

// awayMemories has edges that reach no server again and again, and clients that connect then.
func awayMemories(c *Config) {
	behindMemories(c)
	c.Away, c.MovePct, c.Faults[FaultEdge] = true, 10, c.ElectionMs*4
}

// awayTwo has edges of which each follows two nodes then.
func awayTwo(c *Config) {
	awayMemories(c)
	c.Cached = 2
}

// forgetfulMemories has servers forget changes that edges lack, too.
func forgetfulMemories(c *Config) {
	behindMemories(c)
	c.FeedBytes, c.Faults[FaultEdge] = 1<<9, c.ElectionMs*10
}

// laggingMemories has servers behind each other.
func laggingMemories(c *Config) {
	behindLaggards(c)
	c.Cached, c.Pipeline, c.Faults[FaultEdge] = 1, 1, c.ElectionMs*10
	c.ApplyUs = 20000
}

// behindLaggards has servers behind each other, too.
func behindLaggards(c *Config) {
	behindEdges(c)
	c.Voters, c.Observers, c.NetUs, c.ApplyUs, c.LazyPct = 3, 2, 3000, 5000, 60
	c.DropPct, c.DupPct, c.ReorderPct = 0, 0, 0
	often(c, FaultSlow, FaultBlock)
}

// focuses are the configurations in which random runs find a mutant soon. A mutant that one
// in fifty runs of any kind finds needs none.
var focuses = map[string]func(*Config){
	"relay-memory-missed-unseen": behindLaggards,
	"relay-memory-old":           behindMemories,
	"resume-memory-between":      carriesEvents,
	"mux-no-credit":              carries,
	"mux-beyond-credit":          carries,
	"mux-end-overtakes":          carries,
	"mux-silent-kept":            carriesIdle,
	"mux-ping-unheard":           carriesIdle,
	"mux-never-moved":            carries,
	"stream-credit-twice":        carries,
	"stream-held-up":             carries,
	"stream-unread-moved":        carries,
	"stream-late-refused":        carries,
	"stream-number-kept":         carries,
	"stream-refused-kept":        func(c *Config) { carries(c); c.Faults[FaultEdge], c.MovePct = c.ElectionMs/4, 10 },
	"stream-quit-unheard":        carries,
	"stream-quit-ends":           carries,
	"stream-ping-late":           carriesIdle,
	"stream-ping-forgotten":      carriesIdle,
	"stream-ended-answered":      func(c *Config) { carriesIdle(c); c.MovePct, c.HangPct = 10, 0 },
	"relay-memory-ahead":         behindMemories,
	"relay-memory-busy":          behindMemories,
	"relay-memory-unsynced":      laggingMemories,
	"relay-memory-unwatched":     behindMemories,
	"memory-one-version":         twoMemories,
	"memory-reset-kept":          forgetfulMemories,
	"memory-no-parent":           behindMemories,
	"away-backwards":             awayMemories,
	"away-untimed":               awayMemories,
	"away-write":                 awayMemories,
	"away-sync":                  awayMemories,
	"away-outside":               awayMemories,
	"away-untold":                awayMemories,
	"away-guessed":               awayMemories,
	"read-only-passed":           awayTwo,
	"resume-patient":             behindSilence,
	"resume-not":                 behindEdges,
	"resume-renumbered":          behindEdges,
	"resume-sync-once":           behindEdges,
	"resume-restored-none":       behindEdges,
	"resume-restored-since":      func(c *Config) { behindEdges(c); c.Steps = 16000 },
	"relay-tail-lost":            behindEdges,
	"relay-tail-twice":           behindEdges,
	"relay-live-twice":           behindEdges,
	"relay-one-shot-twice":       behindEdges,
	"relay-no-parent":            behindEdges,
	"relay-hidden":               behindEdges,
	"relay-not-below":            behindEdges,
	"relay-not-held":             behindEdges,
	"relay-outcome-first":        behindEdges,
	"relay-overtakes":            behindEdges,
	"relay-unordered":            behindEdges,
	"relay-read-lost":            behindEdges,
	"relay-header-behind":        behindEdges,
	"no-postpone": func(c *Config) {
		c.SessionMs = c.ElectionMs / 2
		c.SkewPct = 0
		often(c, FaultPause)
	},
	"no-lease": func(c *Config) {
		dozers(c)
		c.Voters, c.Observers, c.SessionMs, c.Faults = 3, 0, c.ElectionMs, [numFaults]uint64{}
		often(c, FaultPause)
	},
	"no-resync": func(c *Config) { // to the real log
		c.WAL = true
		often(c, FaultKill, FaultPower, FaultBadSync)
	},
	"purge-base": func(c *Config) {
		c.SnapshotEach, c.SnapRetain = 5, 3
		often(c, FaultBadSnaps)
	},
	"purge-joiners": lateJoiners,
	"early-install": func(c *Config) {
		c.SnapshotEach, c.SnapRetain, c.CacheBytes = 5, 1, 1
		c.ThinkUs = c.ElectionMs * 500
		often(c, FaultFull, FaultPause, FaultTransfer)
	},
	"expired-early": func(c *Config) {
		c.SessionMs = c.ElectionMs / 2
		c.NetUs, c.FsyncUs = 10000, 50
		often(c, FaultBlock, FaultStall, FaultBreak)
	},
	"no-hold": func(c *Config) {
		dozers(c)
		c.ThinkUs = c.ElectionMs * 200
	},
	"owner-unchecked": func(c *Config) {
		c.Pipeline, c.Clients, c.SessionMs, c.FsyncUs, c.NetUs = 16, 5, c.ElectionMs, 15000, 10000
		c.Faults = [numFaults]uint64{}
		often(c, FaultPause, FaultSlow)
	},
	"owner-of-tree": movers,
	"moved-kept":    movers,
	"owner-forgotten": func(c *Config) {
		movers(c)
		c.MixedMs = c.ElectionMs * 4
	},
	"earlier-served": func(c *Config) {
		stayers(c)
		often(c, FaultStall, FaultBreak)
	},
	"turn-unbounded": laborious,
	"broken-kept":    fatals,
	"renewed-early":  fatals,
	"ended-again":    func(c *Config) { stayers(c); c.BadPct = 30; often(c, FaultHalfOpen, FaultBreak) },
	"refused-waits": func(c *Config) {
		stayers(c)
		c.BadPct = 20
		often(c, FaultHalfOpen, FaultBlock)
	},
	"fence-early": func(c *Config) { stayers(c); c.ApplyUs = 2000; often(c, FaultStall, FaultBreak) },
	"not-passed":  func(c *Config) { stayers(c); often(c, FaultHalfOpen, FaultBlock) },
	"unowned-kept": func(c *Config) {
		movers(c)
		c.MixedMs, c.InterludeMs = c.ElectionMs*100, c.ElectionMs*10
		often(c, FaultTransfer, FaultBreak)
	},
	"replay-passes-barriers": func(c *Config) {
		c.Clients, c.Pipeline, c.Backlog, c.ApplyUs, c.NetUs, c.FsyncUs = 5, 16, 600, 2000, 10000, 300
		c.ThinkUs, c.SessionMs, c.DozePct, c.Faults = c.ElectionMs*20, c.ElectionMs, 10, [numFaults]uint64{}
		often(c, FaultBlock)
	},
	"higher-epoch-ignored": func(c *Config) {
		staleReads(c)
		c.Voters, c.DropPct, c.NetUs = 5, 0, c.ElectionMs*60
	},
	"relative-ignored": func(c *Config) {
		watchers(c)
		c.Feeds, c.Views, c.MovePct = 0, 0, 10 // clients with open watches come back to another server
	},
	"persistent-not-restored": watchers,
	"persistent-once":         watchers,
	"rest-untold":             herds,
	"part-shown":              herds,
	"report-twice": func(c *Config) {
		dozers(c)
		c.NetUs, c.DialMs, c.DozePct, c.Steps = 10000, 5, 20, 6000
		c.MovePct, c.HangPct, c.Local, c.DeafPct = 30, 0, 0, 0 // lines end just after they were heard of, before a report
		c.Faults = [numFaults]uint64{}
		often(c, FaultBreak)
	},
	"touches-dropped":         dozers,
	"ping-missed":             func(c *Config) { dozers(c); c.Edges, c.Local, c.Cached = 1, 0, 0 },
	"served-alone":            func(c *Config) { dozers(c); c.Steps = 8000 },
	"double-close":            func(c *Config) { c.ClosePct, c.Pipeline, c.Clients = 50, 16, 5 },
	"first-come-first-served": loud,
	"turns-of-servers":        loud,
	"turns-of-connections":    crowd,
	"short-unbounded":         func(c *Config) { crowd(c); c.Short = 1000 },
	"weights-ignored":         func(c *Config) { crowd(c); c.Weight = 1000 },
	"damage-unseen":           func(c *Config) { often(c, FaultDamage, FaultKill) },
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
		c.Voters, c.DialMs, c.FsyncUs = 3, 5, 15000
		often(c, FaultPowerAll, FaultKill)
	},
	"promise-repointed": func(c *Config) {
		c.Voters, c.NetUs, c.FsyncUs, c.DialMs = 3, 10000, 50, 150
		c.Faults = [numFaults]uint64{}
		often(c, FaultPowerAll)
	},
	"observer-counted": func(c *Config) {
		c.NetUs, c.FsyncUs, c.DialMs = 50, 5000, 150
		c.Faults = [numFaults]uint64{}
		often(c, FaultMembers)
	},
	"wiped-server-votes": func(c *Config) { often(c, FaultWipe, FaultPower, FaultPartition) },
	"files-not-compared": func(c *Config) { c.Voters, c.OddFile, c.Groups = 5, true, 0 },
	"file-decides":       func(c *Config) { often(c, FaultFiles, FaultPartition) },
	"retired-ignored":    retirements,
	"retired-syncs":      retirements,
	"retired-resumes":    retirements,
	"retired-of-tree":    retirements,
	"retired-forgotten":  func(c *Config) { retirements(c); often(c, FaultKill, FaultTransfer) },
	"retired-expires":    func(c *Config) { retirements(c); c.DozePct = 10 },
	"brief-unseen": func(c *Config) {
		retirements(c)
		c.TickMs, c.ThinkUs, c.DozePct, c.Steps = 50, 5000, 20, 6000
	},
	"never-revived":         func(c *Config) { retirements(c); c.DozePct = 10 },
	"any-history":           copied,
	"any-stream":            copied,
	"any-state":             copied,
	"earlier-state":         func(c *Config) { copied(c); c.SnapMs, c.Steps = 1, 6000 },
	"unsettled-sent":        copied,
	"circle-followed":       func(c *Config) { copied(c); c.Standbys, c.ChaosOnly = 6, false },
	"early-complete":        func(c *Config) { copied(c); often(c, FaultRetire) },
	"any-retirement":        func(c *Config) { c.changesSite(SiteRetires, 1) },
	"untold-loss":           func(c *Config) { c.changesSite(SiteRetires, 1) },
	"unequal-members":       func(c *Config) { c.changesSite(SiteIsLost, 3) },
	"same-ensemble":         func(c *Config) { c.changesSite(SiteIsLost, 2) },
	"epochs-not-ahead":      func(c *Config) { c.changesSite(SiteIsLost, 2) },
	"first-forgotten":       func(c *Config) { c.changesSite(SiteIsLost, 1) },
	"stays-retired":         func(c *Config) { c.changesSite(SiteRetires, 1) },
	"holder-of-tree":        holders,
	"any-contender":         holders,
	"holder-unchecked":      holders,
	"subtree-of-tree":       trees,
	"limit-ignored":         trees,
	"absent-of-tree":        trees,
	"sets-anothers":         trees,
	"loss-counts":           volumesLost,
	"half-counts":           volumesLost,
	"missing-is-lost":       volumesLost,
	"others-removed":        volumesLost,
	"old-copy-trusted":      func(c *Config) { often(c, FaultOldCopy, FaultKill) },
	"doubted-server-heard":  func(c *Config) { often(c, FaultOldCopy, FaultKill) },
	"one-configs-quorum":    func(c *Config) { often(c, FaultMembers, FaultBreak, FaultPartition, FaultPause) },
	"change-without-quorum": lateObservers,
	"second-change":         changes,
	"change-answered-early": changes,
	"confirmed-early":       func(c *Config) { movers(c); c.Exact = 1; often(c, FaultBreak) },
	"any-version":           changes,
	"change-by-anybody":     changes,
	"joins-with-vote":       joiners,
	"joins-another":         joiners,
	"promotes-another":      longAbsences,
	"demotes-soon":          longAbsences,
	"demotes-too-many":      longAbsences,
	"mark-forgotten":        longAbsences,
	"read-without-round":    staleReads,
	"read-round-too-early":  staleReads,
	"one-lane":              slowWays,
	"level-forgotten":       followers,
	"level-untold":          followers,
	"ends-early":            streamers,
	"end-forgotten":         streamers,
	"batch-lost":            streamers,
	"loss-untold":           followers,
	"children-hidden":       followers,
	"children-lost":         viewers,
	"deleted-last":          viewers,
	"new-show":              viewers,
	"acl-shows":             viewers,
	"view-kept":             viewers,
	"replay-not-fed": func(c *Config) {
		followers(c)
		often(c, FaultKill)
	},
	"counter-wraps":        func(c *Config) { c.InitialCounter = 0xfffffff0 },
	"transfer-without-ack": func(c *Config) { often(c, FaultTransfer, FaultSlow, FaultStall) },
}

// volumesLost has servers that often miss volumes, and purge their logs.
func volumesLost(c *Config) {
	c.SnapshotEach, c.SnapRetain = 5, 1
	c.Faults = [numFaults]uint64{}
	often(c, FaultVolumes, FaultPower)
	c.Faults[FaultVolumes] *= 4
}

// lateJoiners has servers that come back and read the log slowly, while a leader takes snapshots often.
func lateJoiners(c *Config) {
	c.SnapshotEach, c.SnapRetain, c.SnapMs, c.CacheBytes, c.WindowBytes, c.BatchBytes, c.ReadUs = 5, 1, 1, 1, 200, 300, 20000
	c.Clients, c.Pipeline, c.ThinkUs = 3, 1, c.ElectionMs*50
	c.Faults = [numFaults]uint64{}
	often(c, FaultKill, FaultGone)
	c.Faults[FaultKill] *= 2
}

// watchers has clients that watch many nodes, and sessions that outlive the faults.
func watchers(c *Config) {
	c.Clients, c.WatchPct, c.Pipeline, c.DozePct, c.SessionMs, c.Steps = 5, 100, 1, 0, c.ElectionMs*40, 6000
	c.ThinkUs = c.ElectionMs * 50
	c.Faults = [numFaults]uint64{}
}

// herds has watchers of changes that are told in parts.
func herds(c *Config) {
	watchers(c)
	c.HerdPct, c.ThinkUs, c.Pipeline, c.WorkUs, c.WatchPct = 80, c.ElectionMs*20, 16, 0, 70
	c.Feeds, c.Views, c.Streams, c.Loud, c.GuardPct, c.TreePct, c.Voters, c.Observers = 0, 0, 0, 0, 0, 0, 3, 0
}

// crowd has several clients at one address that have many requests under way, beside one at another address.
func crowd(c *Config) {
	loud(c)
	c.Pipeline, c.Loud, c.ThinkUs = 16, 0, 1000
}

// followers has clients that follow changes.
func followers(c *Config) { c.Clients, c.Feeds, c.Pipeline, c.FeedBytes = 5, 1, 4, 2000 }

// streamers has clients that follow changes over HTTP.
func streamers(c *Config) { followers(c); c.Streams = 5 }

// viewers has clients that page through subtrees that change.
func viewers(c *Config) {
	trees(c)
	c.Views, c.ViewMs, c.ViewBytes = 1, c.SessionMs*100, 64<<20
}

// retirements have an ensemble that is retired again and again.
func retirements(c *Config) {
	c.Faults = [numFaults]uint64{}
	often(c, FaultRetire)
	c.Clients = 3
}

// copied has standbys, some of which lag, of servers that purge their logs.
func copied(c *Config) {
	c.Standbys, c.SnapshotEach, c.SnapRetain = 3, 5, 1
	often(c, FaultKill, FaultPartition, FaultTransfer)
}

// holders has clients that contend, and write what only the holder may write.
func holders(c *Config) { c.Clients, c.GuardPct, c.Pipeline = 5, 80, 16 }

// changes has clients that change the members often.
func changes(c *Config) {
	c.Clients, c.AdmitLearners = 5, true
	often(c, FaultMembers, FaultBreak)
	c.Faults[FaultMembers] /= 2
}

// lateObservers has changes of the members while observers have not heard of the newest leader.
func lateObservers(c *Config) {
	changes(c)
	c.Voters, c.Observers, c.Groups, c.AutopilotMs = 3, 3, 0, 0
	c.Faults = [numFaults]uint64{}
	often(c, FaultMembers, FaultBlock, FaultPartition, FaultTransfer)
	c.Faults[FaultMembers] /= 4
}

// longAbsences has servers that autopilot demotes, and clients that change the members.
func longAbsences(c *Config) {
	c.Voters, c.Groups, c.Clients, c.AdmitLearners, c.Steps = 5, 0, 5, true, 6000
	c.AutopilotMs = c.ElectionMs * 2
	c.Faults = [numFaults]uint64{}
	often(c, FaultGone, FaultMembers)
	c.Faults[FaultGone] *= 5
	c.Faults[FaultMembers] *= 2
}

// joiners has servers that no other server's file lists.
func joiners(c *Config) {
	changes(c)
	c.Joiners = 2
}

// slowWays has large values that take longer than heartbeats may be missing, and snapshots
// that take several elections.
func slowWays(c *Config) {
	c.Voters, c.Observers, c.Clients = 3, 0, 2
	c.SessionMs, c.ThinkUs = c.ElectionMs*8, c.ElectionMs*50
	c.Rate = 100
	c.SnapBytes = int64(c.Rate * c.ElectionMs * 5)
	c.BigBytes, c.BigPct = int(c.Rate*c.ElectionMs*2), 1
	c.DropPct, c.DupPct, c.ReorderPct = 0, 0, 0
	c.Faults = [numFaults]uint64{}
}

// dozers has many clients that are silent for nearly as long as allowed, and servers that
// are sometimes cut off from the leader, without other faults.
func dozers(c *Config) {
	c.Clients, c.DozePct, c.SkewPct, c.ClosePct, c.Pipeline = 5, 10, 0, 0, 1
	c.SessionMs, c.ThinkUs, c.Timeouts = c.ElectionMs, c.ElectionMs*50, 1
	c.DropPct, c.DupPct, c.ReorderPct = 0, 0, 0
	c.Faults = [numFaults]uint64{}
	often(c, FaultBlock, FaultPartition)
	c.Faults[FaultBlock] *= 3
	c.Faults[FaultPartition] *= 3
}

// movers has many clients that often move to other servers, whose former servers do not notice,
// and slow disks.
func movers(c *Config) {
	c.Clients, c.Pipeline, c.MovePct, c.HangPct, c.MixedMs = 5, 16, 10, 80, 0
	c.ThinkUs, c.SessionMs, c.FsyncUs, c.NetUs = c.ElectionMs*20, c.ElectionMs*2, 15000, 300
	c.Faults = [numFaults]uint64{}
}

// stayers has clients with many requests under way that stay where they are, leaders whose disks
// are slow, and which let requests wait, and connections that outlive the faults.
func stayers(c *Config) {
	c.Voters, c.Observers, c.Groups, c.Clients, c.Pipeline, c.MovePct, c.MixedMs, c.DozePct = 3, 0, 0, 5, 16, 0, 0, 0
	c.Backlog, c.Waiting, c.FsyncUs, c.NetUs, c.DialMs, c.Rate = 600, 0, 15000, 2000, 5, 0
	c.DropPct, c.DupPct, c.ReorderPct = 0, 0, 0
	c.ThinkUs, c.SessionMs, c.InterludeMs = c.ElectionMs*50, c.ElectionMs*8, c.ElectionMs*10
	c.Steps = 6000
	c.Faults = [numFaults]uint64{}
}

// staleReads makes a leader that hands over receive old answers late, and new answers not
// at all.
func staleReads(c *Config) {
	c.Clients, c.Pipeline, c.Voters, c.Observers = 5, 16, 3, 0
	c.ThinkUs, c.NetUs, c.FsyncUs, c.ApplyUs, c.Steps = c.ElectionMs*50, c.ElectionMs*15, 50, 0, 10000
	c.DropPct, c.DupPct, c.ReorderPct, c.LazyPct, c.SkewPct = 30, 0, 50, 0, 0
	c.SessionMs = c.ElectionMs * 8
	c.Faults = [numFaults]uint64{}
	often(c, FaultTransfer)
}

// directed are the scripts for mutants that random runs find too rarely.
var directed = map[string]func(*script){
	"read-round-too-early":          deposedReads,
	"read-without-round":            deposedReads,
	"promise-without-history-check": lateCandidate,
	"follow-restarts":               slowAnswers,
	"grown-old-copy-trusted":        grownOldCopy,
	"late-hello":                    doubtDuringHandshake,
	"doubt-not-told":                doubtDuringHandshake,
	"founder-votes":                 wipedFounder,
	"earlier-echo-confirms":         echoBefore,
	"old-link-answered":             oldLinkAnswer,
	"done-again":                    lastWriteAgain,
	"accepted-forgotten":            lastWriteAgain,
	"ignored-endlessly":             doubtDuringHandshake,
	"damaged-counted-before-admit":  emptiedServer,
	"one-configs-quorum":            func(s *script) { fewerVoters(s) },
	"change-forgotten":              takenOverChange,
	"places-kept":                   deafObservers,
	"change-again":                  changeWithoutAnswer,
	"dead-barriers-kept":            givenUpChange,
	"timeout-forgotten":             longerTimeout,
	"mark-kept":                     func(s *script) { namedByCommand(s) },
	"rounds-cut-short":              electAtOnce,
	"promised-stands":               func(s *script) { promisedSuccessor(s) },
	"touches-forgotten":             touchBeforePartition,
	"lost-touches":                  touchBeforeCrash,
	"waiting-ignored":               sessionDue,
	"loss-forgotten":                majorityWithoutLogs,
	"roles-ignored":                 directoriesExchanged,
	"conns-kept":                    watchOverASnapshot,
	"reset-forgotten":               feedOverASnapshot,
	"own-lease-waited":              longLeases,
	"unbounded-lease":               longLeases,
	"proposes-nothing":              changeDuringRenewal,
	"owner-late":                    replacedTwice,
	"owners-forgotten":              keptOwner,
	"earlier-barriers":              lateBarriers,
	"aside-forgotten":               longRequests,
	"last-refused":                  latecomer,
	"refused-silently":              latecomer,
	"closings-unbounded":            rackExpires,
	"closings-until-commit":         rackExpires,
	"closings-forgotten":            rackExpires,
	"doomed-served":                 resumeOfADoomedSession,
	"moved-regained":                takenOver,
	"left-recorded":                 leftWithWrites,
	"room-ignored":                  smallMember,
	"own-room-only":                 smallMember,
	"two-kept":                      logFillsTheDisk,
	"shortage-untold":               logFillsTheDisk,
	"forget-waits":                  logFillsTheDisk,
	"reserve-taken":                 logFillsTheDisk,
	"kept-taken":                    logFillsTheDisk,
	"snapshot-again":                fullWithoutQuorum,
}

// broken plays a script and returns the failure.
func broken(cfg Config, do func(*script)) (f *Failure) {
	return brokenFrom(cfg, func(s *script) {
		s.begin()
		do(s)
	})
}

// brokenFrom is like broken for a script that begins before the servers start.
func brokenFrom(cfg Config, do func(*script)) (f *Failure) {
	s := &script{Sim: newSim(cfg)}
	defer func() {
		x := recover()
		if failure, ok := x.(*Failure); ok || x == nil {
			f = failure
			return
		}
		panic(x)
	}()
	do(s)
	return nil
}

// byPages are faults that pages of their packages find: see the tests of mutants there.
var byPages = []string{
	"relay-early",               // a feed has all in one event here: client finds these three
	"relay-fed-first",           // and it is not faster than the events
	"relay-memory-missed-early", // a server of zkd that resumes a session is not behind
	"memory-rights-kept",        // nobody watches a node that can't be read any more
	"away-older",                // one subtree is never behind what it has shown
	"away-children",             // and nobody reads the children of a node of which some are hidden
	"memory-fired-kept",         // a session tells no event for which it has no watch
	"unlinked-kept",             // a run may never end with it
	"cursor-stays",
	"markers-forgotten", // what a copy lacks decides nothing
	"mark-not-reached",
	"stale-is-new",
	"first-list-untold",
	"whole-for-each",
	"waits-ignored",
	"division-forgotten",
	"word-for-ever",
	"waits-untold",
	"room-of-strangers",
	"pending-not-counted",
	"shrinking-refused",
	"other-kept",
	"closer-killed",
	"closed-open",
	"bound-kept",
	"silent-ended",
	"earlier-admitted",
	"unowned-kept",
	"ahead-served",
	"closing-served",
	"requested-timeout",
	"confirmed-replayed",
	"touched-now",
	"arriving-missed",
	"local-reported",
	"not-upgraded",
	"visitor-upgraded",
	"stays-local",
	"undecided-resumed",
	"claimed-upgraded",
	"local-kept",
	"outcomes-cut",
	"taken-served",
	"upgrade-missed",
	"ping-refused-heard",
	"visitor-upgraded",
	"waits-longer",
	"slow-kept",
	"slow-reads-kept",
	"edge-anybody",
	"edge-any-host",
	"edge-super",
	"edge-twice",
	"edge-keeps-own",
	"edge-outlives",
	"edge-kept",
	"edge-unnamed",
	"edge-crosses",
}

// TestPlantedBehaviors is TestBehaviors with the fault of -mutant, if -behaviors says where to. TLC must refuse one of the runs.
func TestPlantedBehaviors(t *testing.T) {
	for _, m := range mutant.All() {
		if *behaviorFlag != "" && m.String() == *mutantFlag {
			defer m.Plant()()
			writeBehaviors(t, func(Result) {})
		}
	}
}
