package show

import (
	"fmt"
	"time"

	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/zab"
)

// View is one look at a server, so that the numbers made from it agree with each other. The
// four-letter words, the admin pages and the metrics show nothing else. The server fills it in one
// place.
type View struct {
	*monitor.Metrics
	Lists

	// Version is release and build date, in a form that clients parse:
	// "3.9.5-1a2b3c4, built on 2026-01-31 12:00 UTC".
	Version   string
	ReadOnly  bool  // it has no quorum, and serves read-only clients
	Copy      bool  // it is a copy of another ensemble, which only read-only clients read
	TraceMask int64 // of SetTraceMask
	Zxid      int64 // last one applied
	Latency   monitor.Latency
	// Disk describes a problem with the disk of the log, such as "full: ..."; "" if there is none.
	Disk string
	// Memory describes a lack of memory; "" if there is none.
	Memory string
	// Drain describes a move of clients to other servers; "" if there is none.
	Drain string

	Now              time.Duration // of the server's clock
	Tree             datatree.Stats
	Watches          int
	Sessions         int
	LocalSessions    int
	Connections      int
	WaitingRequests  int64 // requests that wait for the leader
	WaitingBytes     int64 // their memory
	LargeBytes       int64 // of large requests that wait
	Stalls           int64 // times that a connection was paused
	Feeds            int64 // of changes
	FeedsRefused     int64 // for want of a place
	FeedsDisplaced   int64 // ended so that another one could begin
	FeedsCompacted   int64 // that did not begin or ended, since changes were forgotten
	FeedHistoryBytes int
	Views            int64         // subtrees that clients read at one zxid each
	ViewsRefused     int64         // for want of a place
	ViewsLost        int64         // that ended too early for their clients
	ToMove           int           // connections that a drain is still to end
	KeepsAway        bool          // a drain keeps clients away
	Uptime           time.Duration // since the server began to serve
	LeaderQueue      int           // requests that the leader has not taken
	ApplierQueue     int           // committed transactions that are not applied
	LogAfterSnapshot int64         // bytes
	SnapshotBytes    int64
	PastZxid         int64         // to which the past goes back that this server has; an archive may have more
	PastAge          time.Duration // since that moment; 0 if no past is known
	PastBytes        int64         // of the snapshots and the log that have it
	PastWanted       time.Duration // zkd.historyHours
	PastCut          bool          // zkd.historyKb has no room for so much
	ClockJumps       int           // how often the wall clock was set at once
	DiskFull         bool
	LogWaits         bool // for room, inodes or descriptors
	RefusesWrites    bool
	MemoryLive       int64 // bytes that the last garbage collection left
	MemoryLimit      int64 // of the process; 0 for none
	MemoryShort      bool  // the process uses too much of it
	MemoryPercent    int64 // how full the memory is; at 100 nothing may grow
	WatchMemory      int64 // of the watches
	TreeMemory       int64 // datatree.Tree.Memory
	TreeRoom         int64 // what TreeMemory may be on all members, as far as the server knows; 0 for any
	TreeFull         bool  // of a leader: writes that need more memory are refused
	// FilesForClients and FilesForHTTP are what connections may have of MaxFiles, all of clients and those of
	// each HTTP port; FilesForOwn is left for the log and the links. 0 means no limit.
	FilesForClients, FilesForHTTP, FilesForOwn int
	OpenFiles                                  int64 // -1 where the system does not tell
	MaxFiles                                   int64

	// Of a member of an ensemble.
	Ensemble     bool
	Serving      bool
	Role         *zab.Status
	Members      string // the list of the history
	FileMembers  string // the list of the configuration file
	Unfollowed   string // why a change of the members can't be followed, such as a file that can't be written
	Voters       int
	Peers        []zab.PeerStatus // of a leader
	LeaderUptime time.Duration    // of a leader
	LearnerReads int64            // learners for which a leader waits for its log
	Sending      []Transfer       // snapshots for learners
	Arriving     []Transfer       // snapshots from other servers

	Limits []limits.Figure // of the rules that limit clients, by name

	Standby Standby // of a copy
}

// Standby is how a copy of another ensemble follows it.
type Standby struct {
	Of                 string        // the servers that it may follow, with commas; "" if this is no standby
	From               string        // the server that it follows, "" for none
	Since              time.Duration // for how long it has followed this one, or none
	Fetches            bool          // it follows none, as it gets a whole state: no log reaches back to the copy
	Fetched, FetchSize int64         // bytes of that state that are here, and that it has; 0 if that is not known
	Silent             time.Duration // for how long nothing was heard of From, 0 unless it is too long
	Problem            string        // why it follows none, "" if it never tried
	Refused            bool          // by servers: somebody has to mend it
	Lag                time.Duration // since the copy last had all that the ensemble had; negative if it never had
	// LagEntries and LagBytes, of the log, are what the copy did not have a moment ago; negative if it is not known.
	LagEntries, LagBytes int64
	Behind               time.Duration // the part of Lag that From has, if that is a standby itself
	Via                  []zab.ID      // what copies.Left says of From
	Entries              int64         // that were followed
	States               int64         // that were fetched whole
	Retired              bool          // the ensemble is, and the copy has everything
}

// String says how the copy follows, for operators.
func (s *Standby) String() string {
	age := "it has no copy yet"
	if s.Lag >= 0 {
		age = fmt.Sprintf("its copy is of %v ago", s.Lag.Round(time.Millisecond))
	}
	if s.LagEntries > 0 {
		age += fmt.Sprintf(" and lacks %d entries, %d bytes", s.LagEntries, s.LagBytes)
	}
	switch {
	case s.Silent > 0:
		return fmt.Sprintf("has heard nothing of %s for %v, one of %s; %s", s.From, s.Silent.Round(time.Second), s.Of, age)
	case s.From != "":
		return fmt.Sprintf("follows %s, one of %s; %s", s.From, s.Of, age)
	case s.Fetches:
		return fmt.Sprintf("gets a whole state from one of %s, %s; %s", s.Of, s.progress(), age)
	case s.Problem == "":
		return fmt.Sprintf("begins to follow one of %s; %s", s.Of, age)
	}
	return oneLine(fmt.Sprintf("follows none of %s for %v; %s: %s", s.Of, s.Since.Round(time.Second), age, s.Problem))
}

// progress says how much of a whole state is here.
func (s *Standby) progress() string {
	if s.FetchSize == 0 {
		return fmt.Sprintf("%d bytes so far", s.Fetched)
	}
	return fmt.Sprintf("%d of %d bytes so far", s.Fetched, s.FetchSize)
}

// Follows reports whether it follows a server that is heard.
func (s *Standby) Follows() bool { return s.From != "" && s.Silent == 0 }

// Lists are what takes longer to look at, so a word, a page or a metric calls only those that it
// shows. What they return belongs to the caller.
type Lists struct {
	// Environment returns the lines of envi, with Version as "zookeeper.version" first.
	Environment func() []KV
	// Settings returns the effective configuration.
	Settings func() Settings
	// DirSizes returns the bytes on disk of snapshots and of the log.
	DirSizes func() Dirs

	// Conns returns all connections, including that of the command.
	Conns func() []Connection
	// Clients returns what each connection did, without that of the command, and what those
	// did that have ended, most requests first.
	Clients func() []ClientUse
	// AllSessions returns the sessions and their deadlines.
	AllSessions func() Sessions
	// ConnectionDeadlines returns the times when idle connections are closed, soonest first.
	ConnectionDeadlines func() []ConnectionBucket
	// Ephemerals returns the ephemeral nodes of each session that has any.
	Ephemerals func() []SessionPaths
	// WatchCount returns the number of watches. This and the next two cover only data watches, as
	// in Apache's server.
	WatchCount func() WatchCount
	// WatchesBySession returns the watched paths of each connection that has a watch, by its
	// session.
	WatchesBySession func() []SessionPaths
	// WatchesByPath returns the sessions that watch each watched path.
	WatchesByPath func() []PathSessions

	// LimitUsers returns who uses most of the rules' limits.
	LimitUsers func() []limits.Use

	// Digests returns the digests of the tree that are kept, oldest first.
	Digests func() []Digest
	// Joiners returns the servers that a leader brings up to date.
	Joiners func() []Joiner
	// Peer returns the server's part in its ensemble; nil if it is standalone.
	Peer func() *Peer
	// LastSnapshot returns the newest snapshot; zeros if there is none.
	LastSnapshot func() Snapshot

	// Troubles returns what is wrong. It looks at each session.
	Troubles func() Troubles
	// Quotas returns the quotas of each namespace. It looks at each quota.
	Quotas func() []NamespaceQuotas
	// Held returns what is held by part. It looks at each connection.
	Held func() []Holding
}

// member returns the role of a member that has a quorum; nil for other servers.
func (v *View) member() *zab.Status {
	if !v.Ensemble || v.ReadOnly || v.Copy {
		return nil
	}
	return v.Role
}

// Mode returns what a server is for clients: standalone, leader, follower, observer or read-only.
func (v *View) Mode() string {
	switch st := v.member(); {
	case st != nil:
		mode, _ := ModeOf(st)
		return mode
	case v.Ensemble || v.Copy:
		return "read-only"
	}
	return "standalone"
}

// PeerState returns what a member does: "leading - broadcast", "following - broadcast" or
// "observing - broadcast", since it serves only then; "" for other servers.
func (v *View) PeerState() string {
	if st := v.member(); st != nil {
		_, doing := ModeOf(st)
		return doing
	}
	return ""
}

// ObserverMaster returns the id of the server that an observer follows; 0 for other servers.
func (v *View) ObserverMaster() int64 {
	if st := v.member(); st != nil && st.Observer {
		return int64(st.Leader)
	}
	return 0
}

// LeaderProposals returns the sizes of a leader's proposals; nil for other servers.
func (v *View) LeaderProposals() *monitor.Sizes {
	if st := v.member(); st != nil && st.Role == zab.Leading {
		return &v.ProposalSizes
	}
	return nil
}

// ModeOf returns the names that clients and operators use for a role in service and for its
// activity.
func ModeOf(st *zab.Status) (mode, doing string) {
	switch {
	case st.Role == zab.Leading:
		return "leader", "leading - broadcast"
	case st.Observer:
		return "observer", "observing - broadcast"
	default:
		return "follower", "following - broadcast"
	}
}

// Transfer is a snapshot on its way.
type Transfer struct {
	Peer       zab.SID
	Done, Size int64 // bytes
}

// Holding is how much of something a server holds while it is busy.
type Holding struct {
	Part         string
	Items, Bytes int64
	Limit        int64 // of bytes; 0 for none
}

// roles are what zkd_role tells apart.
var roles = []string{"standalone", "leader", "follower", "observer", "starting", "looking"}

// RoleName returns which of roles the server has. A server that is being brought up to date,
// or is about to lead, is starting.
func (v *View) RoleName() string {
	switch {
	case !v.Ensemble:
		return "standalone"
	case v.Role.Role == zab.Leading:
		return "leader"
	case v.Role.Role == zab.Following && v.Role.Observer:
		return "observer"
	case v.Role.Role == zab.Following:
		return "follower"
	case v.Role.Role == zab.SyncingFollower, v.Role.Role == zab.SyncingLeader:
		return "starting"
	}
	return "looking"
}

// DescribeRole returns the log's description of a server's part in the ensemble.
func DescribeRole(st *zab.Status) string {
	switch st.Role {
	case zab.Looking:
		return "looking for a leader"
	case zab.Candidate:
		return "candidate"
	case zab.SyncingLeader:
		return "leader, not yet in service"
	case zab.SyncingFollower:
		return "learner, not yet in service"
	case zab.Leading, zab.Following:
		mode, _ := ModeOf(st)
		return mode
	}
	return fmt.Sprintf("halted: %s", st.Reason)
}
