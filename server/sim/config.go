package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/datatree"
)

// Config is the configuration of a run. Draw makes one from a seed; scripted tests write
// their own. Times are in virtual ms, unless the name says otherwise.
type Config struct {
	Seed      uint64
	Voters    int
	Observers int
	Clients   int
	Steps     int // length of the chaos phase

	TickMs      uint64 // between two ticks of a core
	ElectionMs  uint64 // Options.ElectionTimeout; the other timeouts follow from it
	HeartbeatMs uint64 // 0 for a tenth of ElectionMs
	InitMs      uint64 // Options.InitLimit
	RenewMs     uint64 // Options.RenewInterval
	InterludeMs uint64 // for how long connections wait for the next service

	InitialCounter uint32
	CacheBytes     int // 0: the core's default, as in the next two
	WindowBytes    int
	BatchBytes     int

	Encode  bool // messages are sent encoded
	WAL     bool // a real log in addition to the model
	LazyPct int  // inputs after which the node does not take outputs at once

	NetUs      uint64 // usual delay of a message
	FsyncUs    uint64 // usual time of an fsync
	ApplyUs    uint64 // between commit and apply; 0 is at once
	SnapMs     uint64 // to write or to send a snapshot
	ReadUs     uint64 // maximum time to read the log for a learner
	Rate       uint64 // bytes per ms from one server to another; 0 means no limit
	SnapBytes  int64  // of a snapshot in transit, besides its rows
	BigBytes   int    // of a large value
	BigPct     int    // share of writes with a large value
	DialMs     uint64 // between two attempts to connect
	SkewPct    int    // maximum rate by which clocks run too fast or too slow
	DropPct    int    // messages lost individually; otherwise links lose only suffixes
	DupPct     int    // messages delivered twice
	ReorderPct int    // messages overtaken by others

	ThinkUs      uint64 // of a client between two requests
	Pipeline     int    // outstanding requests of a client
	Loud         int    // the same of the first client, which sends them at once; 0 if it is like the others
	ClosePct     int    // requests that end a session
	BadPct       int    // writes that can't be decoded, and are refused
	FatalPct     int    // writes at which a leader panics
	WorkUs       uint64 // what a request or an operation takes, to be evaluated and to be applied; 0 is no time
	Work         int    // replica.Limits.Work
	GuardPct     int    // writes that contend for a place, or are for its holder only
	TreePct      int    // writes by operations of extensions
	WatchPct     int    // reads that name a node, and set a watch
	MovePct      int    // turns after which a client gives up its connection
	HangPct      int    // connections that a client gives up without their server noticing
	DozePct      int    // turns after which a client is silent for about a session's timeout
	SessionMs    uint64 // shortest timeout of sessions
	Timeouts     int    // a client asks for up to this many times SessionMs; 0 counts as 1
	MaxListed    int    // evaluate.Options.MaxListed
	SnapshotEach int    // entries applied between two snapshots; 0 for none
	SnapRetain   int    // snapshots kept, and the log after the oldest

	// Faults are the mean times between two faults of a kind; 0 disables the kind.
	Faults [numFaults]uint64

	Backlog  int64 // bytes that the applier and a leader hold; 0 for a lot
	Waiting  int64 // replica.Limits.Waiting; 0 for a lot
	Closings int64 // replica.Limits.Closings
	Short    int64 // replica.Limits.Short
	Turn     int   // replica.Limits.Turn
	Weight   int64 // of the first client's address in limits.Weights; 0 for limits.Even
	// OddFile gives one server a different list from the start. That server alone is no
	// quorum of its list.
	OddFile bool

	// Groups makes the first list hierarchical with this many groups; 0 means a plain list.
	Groups int
	// SharedRate makes all paths from a server share its rate.
	SharedRate bool
	// Settings gives each server its own times and limits.
	Settings bool

	// AdmitLearners has learners without a vote admitted as well, and linked though they are in
	// no list.
	AdmitLearners bool
	// AutopilotMs is for how long a voter must be gone to be made an observer; 0 means never.
	AutopilotMs uint64
	// Joiners are further servers, which only their own files list.
	Joiners int

	// MixedMs is after how long a server that can't read who owns a session comes or goes; 0 means
	// that there is none.
	MixedMs uint64

	// Exact is every how many clients one has exactly-once sessions; 0 means none.
	Exact int

	// Edges is every how many clients one is behind an edge; 0 means none.
	Edges int
	// Cached says which subtrees edges have in memory: 0 none, 1 everything, 2 two nodes.
	Cached int
	// Carriers is how many connections to a server carry the sessions of an edge, at most; 0: each session has its own. Window and MaxOut are of package streams.
	Carriers, Window, MaxOut int
	Away                     bool // every other client accepts a read-only session of an edge without a server

	// Feeds is every how many clients one follows changes; 0 means none.
	Feeds     int
	Streams   int // clients that follow changes over HTTP
	FeedBytes int // of the changes that a server keeps
	MaxFeeds  int // of a server; 0 means no limit

	Standbys int        // servers at another site that copy the ensemble
	Site     SiteChange // in the middle of the chaos

	// Views is every how many clients one pages through subtrees; 0 means none.
	Views     int
	ViewMs    uint64 // the life of a view
	ViewBytes int    // of former versions of nodes, for a view

	// Local: 0 means that sessions are global, 1 that new ones are local, and 2 that these become global with
	// their first ephemeral.
	Local int

	// Capacity is how many bytes the disk of a server has, of which the segments of its real log and its snapshots take; 0
	// means that there is no limit.
	Capacity int64

	DeafPct int // turns after which a client, one of every two, reads and sends nothing for a while
	Unread  int // line.Lines.Unread

	HerdPct int // transactions that are applied in slices, as if they had many watchers

	AheadPct int // turns in which a connection ahead of all servers asks for a client's session
	GreetPct int // handshakes that take up to an election timeout
	// LateHellos has links admitted on which an end has said what is no longer true, as between
	// processes of earlier builds.
	LateHellos bool

	// ChaosOnly omits the phases in which the ensemble must recover.
	ChaosOnly bool
}

// Fault is a kind of fault that the nemesis causes.
type Fault uint8

// The faults.
const (
	FaultKill      Fault = iota // the process dies and starts again
	FaultPower                  // the machine fails, too: unsynced data may be lost
	FaultPowerAll               // power failure of all servers
	FaultInside                 // a process dies between two outputs of one Take
	FaultPause                  // the process stops for a while
	FaultBreak                  // a link breaks
	FaultHalfOpen               // a link breaks, and one end learns of it late
	FaultBlock                  // one direction between two servers is blocked
	FaultPartition              // the servers are partitioned
	FaultSlow                   // a link becomes slow
	FaultStall                  // an fsync takes very long
	FaultFull                   // the disk is reported to be full
	FaultWipe                   // the disk is empty at the next start
	FaultDamage                 // the end of the log is lost, and that is noticed
	FaultRollback               // the disk is replaced by an old copy, under a new incarnation
	FaultTransfer               // the leader is told to hand over
	FaultMembers                // the members are changed by a command
	FaultFiles                  // a server is restarted with another list in its configuration file
	FaultOldCopy                // the disk is replaced by an old copy, under its old incarnation
	FaultBadSync                // an fsync fails
	FaultVolumes                // volumes are missing at the next starts
	FaultBadSnaps               // the snapshots are damaged
	FaultGone                   // a server or two are gone for so long that autopilot acts
	FaultMemory                 // a server's tree may take little more memory than it does, or less
	FaultShort                  // something else takes nearly all of a disk with a capacity
	FaultRetire                 // the ensemble is retired for a while
	FaultEdge                   // an edge dies, hands over, or loses its connections
	numFaults
)

var faultNames = [numFaults]string{
	"kill", "power", "powerall", "inside", "pause", "break", "halfopen", "block", "partition", "slow", "stall",
	"full", "wipe", "damage", "rollback", "transfer", "members", "files", "oldcopy", "badsync",
	"volumes", "badsnaps", "gone", "memory", "short", "retire", "edge",
}

func (f Fault) String() string { return faultNames[f] }

// servers returns the number of servers.
func (c *Config) servers() int { return c.Voters + c.Observers + c.Joiners }

// String renders the configuration in one line.
func (c *Config) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "voters=%d observers=%d clients=%d steps=%d tick=%d election=%d init=%d renew=%d interlude=%d", c.Voters, c.Observers,
		c.Clients, c.Steps, c.TickMs, c.ElectionMs, c.InitMs, c.RenewMs, c.InterludeMs)
	fmt.Fprintf(&b, " counter=%#x cache=%d window=%d batch=%d encode=%v wal=%v lazy=%d%%", c.InitialCounter,
		c.CacheBytes, c.WindowBytes, c.BatchBytes, c.Encode, c.WAL, c.LazyPct)
	fmt.Fprintf(&b, " net=%dµs fsync=%dµs apply=%dµs read=%dµs snap=%dms dial=%dms skew=%d%% drop=%d%% dup=%d%% reorder=%d%%",
		c.NetUs, c.FsyncUs, c.ApplyUs, c.ReadUs, c.SnapMs, c.DialMs, c.SkewPct, c.DropPct, c.DupPct, c.ReorderPct)
	fmt.Fprintf(&b, " rate=%d snapbytes=%d big=%d bigpct=%d%%", c.Rate, c.SnapBytes, c.BigBytes, c.BigPct)
	fmt.Fprintf(&b, " think=%dµs pipeline=%d loud=%d turn=%d weight=%d short=%d close=%d%% watch=%d%% guard=%d%% tree=%d%% bad=%d%% doze=%d%% move=%d%% hang=%d%% mixed=%dms session=%dx%d listed=%d backlog=%d snapeach=%d retain=%d", c.ThinkUs, c.Pipeline, c.Loud, c.Turn, c.Weight, c.Short, c.ClosePct, c.WatchPct, c.GuardPct, c.TreePct, c.BadPct, c.DozePct, c.MovePct, c.HangPct, c.MixedMs, c.SessionMs, c.Timeouts, c.MaxListed, c.Backlog, c.SnapshotEach, c.SnapRetain)
	say := func(is bool, format string, args ...any) {
		if is {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	for f, ms := range c.Faults {
		say(ms > 0, "%s=%dms", Fault(f), ms)
	}
	say(c.Closings > 0, "closings=%d", c.Closings)
	say(c.Waiting > 0, "waiting=%d", c.Waiting)
	say(c.OddFile, "oddfile")
	say(c.Groups > 0, "groups=%d", c.Groups)
	say(c.SharedRate, "sharedrate")
	say(c.Settings, "settings")
	say(c.AdmitLearners, "admitlearners joiners=%d autopilot=%d", c.Joiners, c.AutopilotMs)
	say(c.Exact > 0, "exact=%d", c.Exact)
	say(c.Edges > 0, "edges=%d cached=%d away=%v", c.Edges, c.Cached, c.Away)
	say(c.Carriers > 0, "carriers=%d window=%d maxout=%d", c.Carriers, c.Window, c.MaxOut)
	say(c.Feeds+c.Streams > 0, "feeds=%d streams=%d feedbytes=%d maxfeeds=%d", c.Feeds, c.Streams, c.FeedBytes, c.MaxFeeds)
	say(c.Standbys > 0, "standbys=%d site=%d", c.Standbys, c.Site)
	say(c.Views > 0, "views=%d viewms=%d viewbytes=%d", c.Views, c.ViewMs, c.ViewBytes)
	say(c.AheadPct > 0, "ahead=%d%%", c.AheadPct)
	say(c.Local > 0, "local=%d", c.Local)
	say(c.DeafPct > 0, "deaf=%d%% unread=%d", c.DeafPct, c.Unread)
	say(c.HerdPct > 0, "herd=%d%%", c.HerdPct)
	say(c.GreetPct > 0, "greet=%d%%", c.GreetPct)
	say(c.FatalPct > 0, "fatal=%d%%", c.FatalPct)
	say(c.WorkUs > 0, "workus=%d work=%d", c.WorkUs, c.Work)
	say(c.Capacity > 0, "capacity=%d", c.Capacity)
	say(c.LateHellos, "latehellos")
	return b.String()
}

// Draw returns the configuration for a seed.
func Draw(seed uint64, steps int) Config {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	c := Config{Seed: seed, Steps: steps, Unread: line.UnreadLimit}
	c.Voters = pick(r, 3, 3, 3, 3, 3, 5, 5, 7)
	c.Observers = pick(r, 0, 0, 0, 1, 1, 2)
	c.Clients = pick(r, 1, 2, 3, 3, 5)
	c.drawTimes(r)
	c.drawSizes(r)
	c.drawNetwork(r)
	c.drawFaults(r)
	c.drawRate(r)
	c.DozePct = pick(r, 0, 0, 0, 2, 10)
	c.Timeouts = pick(r, 1, 1, 3)
	c.MaxListed = pick(r, 0, 0, 1)
	c.OddFile = r.IntN(8) == 0
	c.Backlog = pick[int64](r, 0, 0, 600, 3000)
	c.Groups = pick(r, 0, 0, 0, 0, 2, 3)
	if c.Rate > 0 && r.IntN(2) == 0 {
		c.SharedRate = true
		c.Rate *= uint64(c.servers() - 1)
	}
	c.Settings = r.IntN(4) == 0
	c.WatchPct = pick(r, 0, 20, 60)
	c.GuardPct = pick(r, 0, 0, 30)
	if c.AdmitLearners = r.IntN(2) == 0; c.AdmitLearners {
		c.Joiners = pick(r, 0, 0, 1, 2)
		c.drawAutopilot(r)
	}
	if c.Rate == 0 && r.IntN(4) == 0 {
		c.Loud = 100
	}
	c.MovePct = pick(r, 0, 0, 2, 10)
	c.HangPct = pick(r, 0, 30, 80)
	c.BadPct = pick(r, 0, 0, 5)
	c.InterludeMs = c.ElectionMs * pick[uint64](r, 0, 1, 3, 3, 10)
	c.MixedMs = c.ElectionMs * pick[uint64](r, 0, 0, 0, 0, 10, 50)
	c.Exact = pick(r, 0, 1, 2)
	if c.BigPct > 0 {
		c.Exact = 0 // sent again and again, large values would exceed the rate
	}
	c.TreePct = pick(r, 0, 0, 30)
	c.Feeds = pick(r, 0, 0, 1, 2)
	c.FeedBytes = pick(r, 2000, 6000, 1<<18)
	c.Views = pick(r, 0, 0, 1, 2)
	c.ViewMs = c.SessionMs * pick[uint64](r, 1, 10, 100)
	c.ViewBytes = pick(r, 20*datatree.SavedBytes, 64<<20)
	c.Closings = pick[int64](r, 0, 256, 1024)
	c.Turn = pick(r, 1, 1000, 8192)
	c.Streams = pick(r, 0, 0, 1, 3)
	c.GreetPct = pick(r, 0, 5, 30)
	c.LateHellos = r.IntN(4) == 0
	c.AheadPct = pick(r, 0, 0, 2)
	c.MaxFeeds = pick(r, 0, 1, 2, 3)
	c.Waiting = pick[int64](r, 0, 0, 600, 3000) // each request has room if none waits
	if c.DeafPct = pick(r, 0, 0, 1, 5); c.DeafPct > 0 {
		c.Unread = pick(r, 2500, line.UnreadLimit) // more than the events that a client can have missed
		if c.WatchPct == 0 && c.Pipeline <= 4 && c.Loud == 0 {
			c.Unread = 600 // more than the replies to the reads that it has under way after one write
		}
	}
	c.Local = pick(r, 0, 0, 0, 0, 0, 0, 1, 2)
	c.FatalPct = pick(r, 0, 0, 0, 0, 0, 0, 0, 10)
	if r.IntN(6) == 0 {
		c.WorkUs = c.ElectionMs * pick[uint64](r, 1, 10) // up to a hundredth of an election
		c.Work = pick(r, 0, 0, 1, 20)
		c.BigBytes = min(c.BigBytes, int(256*250*c.ElectionMs/c.WorkUs)) // 256 count as a request: in all a quarter of an election
	}
	if r.IntN(8) == 0 {
		c.Faults[FaultMemory] = c.ElectionMs * pick[uint64](r, 2, 5, 10)
	}
	c.Weight = pick[int64](r, 0, 0, 200, 1000)
	c.Short = pick[int64](r, 0, 1, 1000, 5000)
	if c.Rate == 0 && c.FatalPct == 0 && r.IntN(10) == 0 {
		c.drawCapacity(r)
	}
	c.HerdPct = pick(r, 0, 0, 50)
	if r.IntN(8) == 0 {
		c.Faults[FaultRetire] = c.ElectionMs * pick[uint64](r, 5, 20)
	}
	if r.IntN(8) == 0 {
		c.changesSite(pick(r, SiteStays, SiteRetires, SiteIsLost), pick(r, 1, 2, 3))
	}
	c.drawEdges(r)
	return c
}

// changesSite gives the run some standbys, which take the place of the ensemble or not.
func (c *Config) changesSite(change SiteChange, standbys int) {
	c.Site, c.Standbys = change, standbys
	if change != SiteStays {
		c.Edges, c.Faults[FaultEdge] = 0, 0
	}
	if c.Capacity > 0 {
		c.Site = SiteStays // what a copy needs may not fit on such a disk
	}
	if c.Site == SiteIsLost {
		c.Exact = 0 // what became of a client's last writes is lost, too
	}
}

// drawCapacity gives the servers small disks that something else fills now and then, and large values to fill them with.
// There are few other faults, so that much is written.
func (c *Config) drawCapacity(r *rand.Rand) {
	c.Faults = [numFaults]uint64{}
	for _, f := range []Fault{FaultKill, FaultPower, FaultPowerAll, FaultBreak, FaultTransfer} {
		c.Faults[f] = c.ElectionMs * pick[uint64](r, 0, 5, 20)
	}
	c.Clients, c.Pipeline, c.ClosePct, c.DozePct, c.MovePct, c.GuardPct, c.TreePct, c.BadPct = 5, 16, 1, 0, 0, 0, 0, 0
	c.DropPct, c.DupPct, c.ReorderPct, c.ApplyUs, c.WorkUs, c.Loud = 0, 0, 0, 0, 0, 0
	c.WAL, c.Capacity = true, smallSegment*pick[int64](r, 30, 50, 80)
	c.SnapshotEach = pick(r, 0, 30, 200)
	c.Faults[FaultShort] = c.ElectionMs * pick[uint64](r, 1, 2, 5) / 2
	c.ThinkUs = c.ElectionMs * 20
	c.BigBytes, c.BigPct, c.Exact = pick(r, 1000, 3000, 6000), 100, 0
	c.Short = 0 // with one request in a round trip, clients would give up what waits before them
}

// refuses reports whether servers may refuse writes, for want of disk or memory.
func (c *Config) refuses() bool {
	return c.Faults[FaultFull]+c.Faults[FaultMemory]+c.Faults[FaultShort] > 0
}

// Base returns a configuration without faults.
func Base(seed uint64) Config {
	return Config{
		Seed: seed, Voters: 3, Clients: 2, Steps: 3000,
		TickMs: 20, ElectionMs: 400, InitMs: 4000, RenewMs: 800, InterludeMs: 1200,
		NetUs: 300, FsyncUs: 800, ApplyUs: 0, SnapMs: 10, ReadUs: 1000, DialMs: 50,
		ThinkUs: 5000, Pipeline: 1, ClosePct: 1, SessionMs: 2000, SnapRetain: 2, Turn: 1, Unread: line.UnreadLimit,
	}
}

func (c *Config) drawTimes(r *rand.Rand) {
	c.TickMs = pick[uint64](r, 10, 20, 25)
	c.ElectionMs = pick[uint64](r, 200, 300, 500, 1000)
	c.InitMs = c.ElectionMs * pick[uint64](r, 4, 8, 20)
	c.RenewMs = c.ElectionMs * pick[uint64](r, 2, 4, 10)
	c.FsyncUs = pick[uint64](r, 50, 300, 1000, 5000, 15000)
	c.ApplyUs = pick[uint64](r, 0, 0, 100, 2000)
	c.SnapMs = pick[uint64](r, 1, 10, 100)
	c.ReadUs = pick[uint64](r, 100, 1000, 20000)
	c.DialMs = pick[uint64](r, 5, 50, 150)
	c.SkewPct = pick(r, 0, 0, 5)
	c.ThinkUs = c.ElectionMs * 1000 / pick[uint64](r, 2, 5, 5, 20, 20, 100) // so that elections come within a few steps
	c.Pipeline = pick(r, 1, 1, 4, 16)
	c.ClosePct = pick(r, 1, 1, 5)
	c.SessionMs = c.ElectionMs * pick[uint64](r, 2, 4, 8)
}

func (c *Config) drawSizes(r *rand.Rand) {
	if r.IntN(8) == 0 {
		c.InitialCounter = 0xffff0000 - pick[uint32](r, 20, 100, 500)
	}
	if r.IntN(2) == 0 {
		c.CacheBytes = pick(r, 1, 500, 4000)
		c.WindowBytes = pick(r, 200, 2000, 20000)
		c.BatchBytes = pick(r, 1, 300, 3000)
	}
	if r.IntN(3) > 0 {
		c.SnapshotEach = pick(r, 5, 30, 200)
	}
	c.SnapRetain = pick(r, 1, 2, 3)
	c.Encode = r.IntN(4) == 0
	c.WAL = r.IntN(8) == 0
	c.LazyPct = pick(r, 0, 0, 20, 60)
}

func (c *Config) drawNetwork(r *rand.Rand) {
	c.NetUs = pick[uint64](r, 50, 300, 2000, 10000)
	if r.IntN(3) == 0 {
		c.DropPct = pick(r, 0, 1, 5, 20)
		c.DupPct = pick(r, 0, 1, 5, 20)
		c.ReorderPct = pick(r, 0, 5, 20)
	}
}

// drawRate limits the rate of the paths in some runs, so that a snapshot takes as long as
// elections, and a large value longer than heartbeats may be missing. If progress is
// required, clients use less than half of the rate.
func (c *Config) drawRate(r *rand.Rand) {
	if r.IntN(4) > 0 {
		return
	}
	requests := uint64(c.Clients) * 20 // per SessionMs: see think
	c.Rate = max(pick[uint64](r, 20, 100, 400), 4*requests*150/c.SessionMs+10)
	c.SnapBytes = int64(c.Rate * c.ElectionMs * pick[uint64](r, 0, 1, 5))
	if c.BigPct = pick(r, 0, 1, 1); c.BigPct == 0 {
		return
	}
	c.BigBytes = int(c.Rate * c.ElectionMs / 4)
	if large := 2 * c.ElectionMs; requests*large*10 < 3*100*c.SessionMs { // one in 100
		c.BigBytes = int(c.Rate * large)
	}
}

func (c *Config) drawFaults(r *rand.Rand) {
	strength := pick[uint64](r, 1, 2, 4, 10) // half of an election, up to five
	for f := range FaultGone {
		if r.IntN(3) > 0 {
			continue
		}
		mean := c.ElectionMs * strength * (1 + r.Uint64N(4))
		switch f {
		case FaultPowerAll, FaultWipe, FaultDamage, FaultRollback, FaultOldCopy, FaultMembers, FaultVolumes, FaultBadSnaps:
			mean *= 2
		}
		c.Faults[f] = mean
	}
}

// drawAutopilot turns autopilot on in a part of the runs, which then have servers that are
// gone for long.
func (c *Config) drawAutopilot(r *rand.Rand) {
	if r.IntN(2) == 0 {
		return
	}
	c.AutopilotMs = c.ElectionMs * pick[uint64](r, 2, 4)
	c.Faults[FaultGone] = c.ElectionMs * pick[uint64](r, 5, 10, 20)
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
