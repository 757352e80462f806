package sim

import "testing"

// laborious has leaders with much to do, and nothing goes wrong: 40 requests take as long as an election.
func laborious(c *Config) {
	loud(c)
	c.Voters, c.Observers, c.Groups, c.Joiners, c.AutopilotMs = 3, 0, 0, 0, 0
	c.DropPct, c.DupPct, c.ReorderPct, c.GreetPct, c.SkewPct, c.LazyPct = 0, 0, 0, 0, 0, 0
	c.OddFile, c.Settings, c.LateHellos, c.InitialCounter = false, false, false, 0
	c.NetUs, c.FsyncUs, c.ApplyUs, c.Backlog = 300, 300, 0, 0
	c.WorkUs, c.Work, c.Turn = c.ElectionMs*25, 1, 1
	c.SessionMs = c.ElectionMs * 20
}

// loud has a client with many requests under way beside others.
func loud(c *Config) {
	c.Clients, c.Pipeline, c.Loud, c.Rate, c.Streams = 5, 4, 100, 0, 0
	c.Turn, c.Backlog, c.Waiting, c.FsyncUs, c.BigBytes, c.BigPct = 1, 600, 0, 5000, 0, 0 // many wait, and a turn is short
	c.ThinkUs, c.Steps = c.ElectionMs*50, 4000
	c.Faults = [numFaults]uint64{}
}

// Heartbeats come in time between the turns of a leader that always has more to do: T1.
func TestWorkLosesNoLeader(t *testing.T) {
	busy := sum(t, 6, laborious, func(s *Stats) int { return s.Busy })
	if t.Logf("%d turns", busy); busy < 200 {
		t.Errorf("only %d turns took time", busy)
	}
}
