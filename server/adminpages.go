package server

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/admin"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/words"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// AdminPages returns the pages of the AdminServer. url is the path of the commands, and
// text the configuration file that they show. It may be called before Start.
func (s *Server) AdminPages(url, text string) http.Handler {
	return admin.Handler(admin.Options{
		Server:        func() admin.Server { return s.adminFacts() },
		URL:           url,
		Configuration: text,
		Authorize:     s.authorize,
		Snapshots: func() (bool, time.Duration) {
			a := &s.settings.Live().Admin
			return a.Snapshots, a.SnapshotInterval / 1000 // Apache's server takes its milliseconds for microseconds
		},
	})
}

// adminFacts is what the admin pages show.
type adminFacts struct {
	words.Source
	cfg         *config.Config
	fs          vfs.FS
	now         func() time.Duration
	state       *state.State
	service     serviceView
	clients     *clients.Clients
	role        func() *zab.Status
	peers       func() *[]zab.PeerStatus // of a leader
	requests    func(zab.SID) uint64     // that a server has forwarded to this one
	diskRemark  func() string
	history     *feed.History
	places      *feed.Places
	welcome     func(context.Context, admin.Claim) (v *visitor, status int, problem string)
	handover    *handover
	id          zab.SID
	incarnation zab.ID // of the data directory
	events      *base.Queue[peerEvent]
	logWriter   *logWriter
	snapshots   *snapshotter
	stopping    <-chan struct{}
	ending      func() bool
	cluster     func() *zab.ID
	transport   *transport.Transport // nil without an ensemble
}

func (s *Server) adminFacts() adminFacts {
	return adminFacts{
		Source:      s.words.Source(0),
		cfg:         s.cfg,
		fs:          s.fs,
		now:         s.now,
		state:       &s.state,
		service:     &s.service,
		clients:     s.clients,
		role:        s.standing.role.Load,
		peers:       s.standing.peers.Load,
		requests:    s.standing.forwarded,
		diskRemark:  s.overview.diskRemark,
		history:     s.changes,
		places:      &s.places,
		welcome:     s.welcome,
		handover:    s.handover,
		id:          s.id,
		incarnation: s.ident.Incarnation,
		events:      s.events,
		logWriter:   s.logWriter,
		snapshots:   s.snapshots,
		stopping:    s.life.Stopping(),
		ending:      s.life.Ending,
		cluster:     s.cluster.Load,
		transport:   s.transport,
	}
}

// View implements show.Source.
func (f adminFacts) View() *show.View {
	v := f.Source.View()
	v.Peer, v.LastSnapshot = f.peer, f.lastSnapshot
	return v
}

// peer returns this server's part in its ensemble; nil if it is standalone.
func (f adminFacts) peer() *show.Peer {
	if !f.cfg.Replicated() {
		return nil
	}
	st := f.role()
	p := &show.Peer{ID: int64(f.id.Number()), Leads: st.Role == zab.Leading, Leader: leaderOf(st), Voter: !st.Observer, Activity: activityOf(st)}
	f.state.RLock()
	text, _ := f.state.Tree.Data(datatree.ConfigPath)
	members, err := config.ParseMembers(string(text))
	f.state.RUnlock()
	if err != nil || len(members.Servers) == 0 {
		members = f.cfg.Members // nothing has been received yet
	}
	for _, m := range members.Servers {
		row := show.Member{ID: m.ID, Observer: m.Observer}
		for _, a := range m.Addrs {
			row.Quorum = append(row.Quorum, a.String())
			row.Election = append(row.Election, net.JoinHostPort(a.Host, strconv.Itoa(a.ElectionPort)))
		}
		switch {
		case m.Client.Port != 0:
			row.Client = m.Client.String()
		case m.ID == int64(f.id.Number()) && f.cfg.ClientPort > 0: // of the others it does not know
			row.Client = config.Endpoint{Host: cmp.Or(f.cfg.ClientPortAddress, "0.0.0.0"), Port: f.cfg.ClientPort}.String()
		}
		p.Members = append(p.Members, row)
	}
	if peers := f.peers(); p.Leads && peers != nil {
		p.Observers = f.observers(*peers)
	}
	return p
}

// observers returns the observers that follow this leader.
func (f adminFacts) observers(peers []zab.PeerStatus) (list []show.Observer) {
	links := f.transport.Peers()
	for _, o := range peers {
		i := slices.IndexFunc(links, func(l transport.PeerStatus) bool { return l.ID == o.ID })
		if !o.Observer || !o.Synced || i < 0 {
			continue
		}
		l := &links[i]
		list = append(list, show.Observer{ID: int64(o.ID.Number()), Remote: l.Hello.Addr, Since: l.Since, Received: l.FramesIn, Sent: l.FramesOut,
			Queued: l.ControlBytes + l.BulkBytes, Requests: f.requests(o.ID), Zxid: int64(o.Match)})
	}
	return list
}

// leaderOf returns the id of the leader that a server follows or is, -1 for none.
func leaderOf(st *zab.Status) int64 {
	if st.Leader == 0 {
		return -1
	}
	return int64(st.Leader.Number())
}

// activityOf returns Apache's name for what a member does.
func activityOf(st *zab.Status) string {
	switch st.Role {
	case zab.Looking:
		return "election"
	case zab.Candidate:
		return "discovery"
	case zab.SyncingLeader, zab.SyncingFollower:
		return "synchronization"
	case zab.Leading, zab.Following:
		return "broadcast"
	}
	return ""
}

// lastSnapshot returns the newest snapshot; zeros if there is none.
func (f adminFacts) lastSnapshot() show.Snapshot {
	ref, ok := f.snapshots.last()
	if !ok {
		return show.Snapshot{}
	}
	s := show.Snapshot{Zxid: int64(ref.Zxid)}
	if info, err := f.fs.Stat(f.snapshots.store.Path(ref.Name)); err == nil {
		s.At = info.ModTime()
	}
	return s
}

// TakeSnapshot implements admin.Server.
func (f adminFacts) TakeSnapshot(ctx context.Context) (admin.Snapshot, error) {
	ref, err := f.snapshots.newest(ctx, f.state.Applied())
	if err != nil {
		return admin.Snapshot{}, err
	}
	file, err := f.snapshots.store.Open(data.StoreRef(ref))
	if err != nil {
		return admin.Snapshot{}, err
	}
	return admin.Snapshot{ReadCloser: file, Zxid: int64(ref.Zxid), Size: ref.Size}, nil
}

// ShedConnections implements admin.Server.
func (f adminFacts) ShedConnections(percent int) int { return f.clients.Shed(percent) }

// stuckAfter is the time after which a part of the server that does not answer counts as
// stuck. It is longer than any pause that a slow disk or a busy machine explains.
const stuckAfter = 10 * time.Second

// Health implements admin.Server.
func (f adminFacts) Health() []show.Check {
	loop := show.Check{Name: "loop", Concern: show.Live}
	done := make(chan struct{})
	f.events.Put(peerEvent{kind: evPing, done: done})
	select {
	case <-done:
	case <-f.stopping:
		loop.Problem = "the server is stopping"
	case <-time.After(stuckAfter):
		loop.Problem = fmt.Sprintf("the loop that orders requests has not answered for %v", stuckAfter)
	}
	applier := show.Check{Name: "applier", Concern: show.Live}
	if since := time.Duration(f.handover.working.Load()); since != 0 && f.now()-since > stuckAfter {
		applier.Problem = fmt.Sprintf("the goroutine that applies transactions has been busy with one step for %v", (f.now() - since).Round(time.Second))
	}
	disk := show.Check{Name: "disk", Concern: show.Live}
	log := show.Check{Name: "log", Concern: show.Ready}
	switch stats := f.logWriter.Stats(); {
	case stats.Lacks != nil: // a restart brings no room
		log.Problem = fmt.Sprintf("the log waits, no segment can be begun: %v", stats.Lacks)
	case stats.Pending > stuckAfter:
		disk.Problem = fmt.Sprintf("a write to the log has not ended for %v: see the disk of %s", stats.Pending.Round(time.Second), f.cfg.DataLogDir)
	}
	clients := show.Check{Name: "clients", Concern: show.Ready}
	if remark := f.diskRemark(); remark != "" {
		clients.Note = "the disk is " + remark
	}
	switch {
	case f.ending():
		clients.Problem = "the server is stopping"
	case f.ReadOnly():
		clients.Problem = "no quorum is reached: only read-only clients are served"
	case !f.Serving():
		role := *f.role()
		text := explainRole(role)
		if role.Awaits != "" {
			text += "; " + role.Awaits
		}
		clients.Problem = fmt.Sprintf("no leader is known: %s (no service for %v)", text, (f.now() - f.service.IdleSince()).Round(time.Second))
	}
	peers := show.Check{Name: "peers", Concern: show.Ready}
	if f.transport != nil {
		if deaf := f.transport.Deaf(); deaf != "" {
			deaf = "this server can't listen for the other servers: " + deaf
			if clients.Problem == "" { // it has dialled enough of them
				peers.Note = deaf
			} else {
				peers.Problem = deaf
			}
		}
	}
	return []show.Check{loop, applier, disk, log, clients, peers}
}
