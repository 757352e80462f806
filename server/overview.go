package server

import (
	"fmt"
	"slices"
	"time"

	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/secure"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// overview looks at all parts of a server, for those who are shown it. It changes nothing.
type overview struct {
	cfg         *config.Config
	live        func() *config.Config
	version     string
	id          zab.SID
	now         func() time.Duration
	clock       *base.Clock
	metrics     *monitor.Metrics
	limits      *limits
	standing    *standing
	service     *service
	following   *following
	missing     *missingVoters
	state       *state.State
	tracker     *session.Tracker
	schemes     *auth.Schemes
	disk        *disk
	audit       *audit.Trail
	memory      *memory
	logWriter   *logWriter
	snapshots   *snapshotter
	submissions *base.Queue[replica.Submission]
	events      *base.Queue[peerEvent]
	handover    *handover
	learners    *learners
	arrivals    *arrivals
	clients     *clients.Clients
	clientTLS   *secure.TLS          // nil without a port for it
	transport   *transport.Transport // nil without an ensemble
}

// read looks at the server. This is where a show.View is filled; a source adds the lists of words and
// pages. It may be called once the state has been recovered, from any goroutine.
func (o *overview) read() *show.View {
	now := o.now()
	log := o.logWriter.Stats()
	v := &show.View{
		Metrics:          o.metrics,
		Now:              now,
		Watches:          o.state.Watches.Count(),
		Uptime:           now - time.Duration(o.service.from.Load()),
		LeaderQueue:      o.submissions.Len(),
		ApplierQueue:     o.handover.orders.Len(),
		LogAfterSnapshot: log.SinceSnapRef,
		SnapshotBytes:    o.snapshots.size.Load(),
		DiskFull:         o.disk.Full(),
		LogWaits:         log.Lacks != nil,
		RefusesWrites:    o.refusesWrites(),
		Ensemble:         o.cfg.Replicated(),
		Serving:          o.service.serving.Load(),
		Role:             o.standing.role.Load(),
		LeaderUptime:     now - time.Duration(o.metrics.LeadsFrom.Load()),
		LearnerReads:     o.learners.waiting.Load(),
		Sending:          o.learners.sizes(),
		Arriving:         o.arrivals.sizes(),
		Version:          o.version,
		ReadOnly:         o.clients.ReadOnly() && !o.service.Serving(),
		Zxid:             int64(o.state.Applied()),
		Latency:          o.metrics.Requests.Latency(),
		Disk:             o.diskRemark(),
		Drain:            o.clients.Drain().Remark(),
		Lists:            show.Lists{Held: o.holdings, Troubles: o.troubles, Quotas: o.quotas},
	}
	o.clients.Show(v)
	o.snapshots.showPast(v)
	o.state.RLock()
	v.Tree, v.TreeMemory = o.state.Tree.Stats(), o.state.Tree.Memory()
	v.Sessions = o.state.Tree.NumSessions()
	o.state.RUnlock()
	v.ClockJumps = o.clock.Jump().Count
	v.OpenFiles, v.MaxFiles = base.FileDescriptors()
	division := base.DivideDescriptors(v.MaxFiles, len(o.cfg.Members.Servers))
	v.FilesForClients, v.FilesForHTTP, v.FilesForOwn = division.Clients, division.HTTP, division.Own
	v.MemoryLive, v.MemoryLimit, v.MemoryShort = o.memory.live.Load(), o.memory.limit, o.memory.short.Load()
	v.TreeRoom, v.TreeFull, v.Memory = o.standing.treeRoom.Load(), o.standing.treeFull.Load(), o.memoryRemark()
	v.WatchMemory = o.state.Watches.Memory()
	v.MemoryPercent = o.memory.percent(v.TreeMemory, v.TreeRoom)
	if peers := o.standing.peers.Load(); peers != nil && v.Role.Role == zab.Leading {
		v.Peers = *peers
	}
	if v.Ensemble {
		lists := o.standing.lists.Load()
		v.Voters, v.Members = lists.settled.NumVoters(), lists.settled.String()
		v.FileMembers = o.standing.intro.Load().Members.String()
		if text := o.following.problem.Load(); text != nil {
			v.Unfollowed = *text
		}
	}
	return v
}

// joiners returns the servers that a leader brings up to date.
func (o *overview) joiners(v *show.View) (list []show.Joiner) {
	for i := range v.Peers {
		p := &v.Peers[i]
		if p.Synced {
			continue
		}
		left, ok := o.logWriter.BytesAfter(p.Match)
		j := show.Joiner{ID: int64(p.ID), Snapshot: !ok, LogLeft: left}
		for _, x := range v.Sending {
			if x.Peer == p.ID {
				j.Snapshot, j.Sent, j.Size = true, x.Done, x.Size
			}
		}
		list = append(list, j)
	}
	return list
}

// holdings returns the items and bytes of every part.
func (o *overview) holdings() []show.Holding {
	list := make([]show.Holding, numParts)
	for p := range list {
		list[p] = show.Holding{Items: o.standing.held[p].items.Load(), Bytes: o.standing.held[p].bytes.Load()}
	}
	set := func(p part, items int, bytes int64) {
		list[p].Items, list[p].Bytes = int64(items), bytes
	}
	list[heldRequests], list[heldReplies], list[heldEnded] = o.clients.Held()
	items, bytes := o.submissions.Held()
	set(heldSubmitted, items, bytes)
	items, bytes = o.events.Held()
	set(heldEvents, items, bytes)
	list[heldWaiting].Limit = o.limits.waiting
	list[heldProposals].Limit = o.limits.proposals
	list[heldEntries].Limit = 2 * int64(o.limits.cache)
	if !o.cfg.Replicated() {
		list[heldEntries].Limit = o.limits.log // nobody asks for older ones
	}
	list[heldLog].Limit = o.limits.log
	set(heldBacklog, o.handover.orders.Len(), o.handover.backlog.Load())
	list[heldBacklog].Limit = o.limits.backlog
	o.state.RLock()
	list[heldView].Items = int64(o.state.Tree.Saved())
	o.state.RUnlock()
	for p := range list {
		list[p].Part = partNames[p]
	}
	return list
}

// refusesWrites reports whether this server leads and refuses writes for lack of room.
func (o *overview) refusesWrites() bool {
	return o.standing.leads() && (o.disk.Full() || o.standing.quorumFull.Load())
}

// diskRemark returns the remark on the disk that operators are shown, "" if all is well.
func (o *overview) diskRemark() string {
	switch full := o.disk.Full(); {
	case full && o.standing.leads():
		return "full: the server refuses writes"
	case full:
		return "full: a leader would refuse writes"
	case o.refusesWrites():
		return "full on too many servers for a quorum: the server refuses writes"
	}
	return ""
}

// memoryRemark returns the remark on memory that operators are shown, "" if all is well.
func (o *overview) memoryRemark() string {
	switch {
	case o.memory.short.Load():
		return "short: writes that need more are refused on all servers"
	case o.standing.treeFull.Load():
		return fmt.Sprintf("full: the tree may not grow, by the memory of server %d: writes that need more are refused", o.standing.treeRoomOf.Load())
	}
	return ""
}

// remarks returns what operators should know of a server that serves.
func (o *overview) remarks() (list []string) {
	if text := o.diskRemark(); text != "" {
		list = append(list, "the disk is "+text)
	}
	if text := o.memoryRemark(); text != "" {
		list = append(list, "the memory is "+text)
	}
	return list
}

// quotas returns the quotas of each namespace.
func (o *overview) quotas() []show.NamespaceQuotas {
	o.state.RLock()
	list := slices.Collect(o.state.Tree.Quotas())
	o.state.RUnlock()
	return show.ByNamespace(list)
}
