package monitor

import (
	"time"

	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/zab"
)

// Reading is one look at a server, so that the numbers made from it agree with each
// other.
type Reading struct {
	*Metrics

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
	DiskFull         bool
	LogWaits         bool // for room, inodes or descriptors
	RefusesWrites    bool
	MemoryLive       int64 // bytes that the last garbage collection left
	MemoryLimit      int64 // of the collector; 0 for none
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

	// Troubles looks at each session, so only what shows them calls it.
	Troubles func() Troubles

	// Quotas returns those of each namespace. It looks at each quota, so only what shows them
	// calls it.
	Quotas func() []NamespaceQuotas

	// Held returns what is held by part. It looks at each connection, so only what shows it
	// calls it.
	Held func() []Holding
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
func (r *Reading) RoleName() string {
	switch {
	case !r.Ensemble:
		return "standalone"
	case r.Role.Role == zab.Leading:
		return "leader"
	case r.Role.Role == zab.Following && r.Role.Observer:
		return "observer"
	case r.Role.Role == zab.Following:
		return "follower"
	case r.Role.Role == zab.SyncingFollower, r.Role.Role == zab.SyncingLeader:
		return "starting"
	}
	return "looking"
}
