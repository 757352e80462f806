package pages

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/admin"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/settings"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/words"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// Server is what the pages need of a server. It implements admin.Server. Each function may be called
// from any goroutine.
type Server struct {
	words.Source
	Config      *config.Config
	FS          vfs.FS
	Now         func() time.Duration
	State       *state.State
	Configured  *settings.Settings
	Clients     *clients.Clients
	Schemes     *auth.Schemes
	Changes     *feed.History // for feeds
	Log         *wal.Writer
	Snapshots   Snapshots
	Store       *snapshot.Store // of Snapshots
	Former      *Past
	Transport   *transport.Transport // nil without an ensemble
	ID          zab.SID
	Incarnation zab.ID // of the data directory
	Role        func() *zab.Status
	Peers       func() *[]zab.PeerStatus // of a leader
	Requests    func(zab.SID) uint64     // that a server has forwarded to this one
	IdleSince   func() time.Duration     // when a service last ended
	InService   func() bool              // whether it leads or follows; nil of a copy
	Remarks     func() []string          // what operators should know of a server that serves
	// Lacks returns what a copy of another ensemble does not have of it. It is nil of other servers.
	Lacks func() copies.Left
	// Ping asks the peer loop to close done.
	Ping func(done chan<- struct{})
	// Working returns when the applier began its present work; 0 while it has none.
	Working  func() time.Duration
	Stopping <-chan struct{}
	Ending   func() bool
}

// Snapshots are those of the server.
type Snapshots interface {
	// Last returns the newest one, if there is one.
	Last() (wal.SnapRef, bool)
	// Newest returns one at a zxid or after it. It has one taken if there is none.
	Newest(ctx context.Context, atLeast jute.Zxid) (wal.SnapRef, error)
}

// View implements show.Source.
func (f *Server) View() *show.View {
	v := f.Source.View()
	v.Peer, v.LastSnapshot = f.peer, f.lastSnapshot
	return v
}

// peer returns this server's part in its ensemble; nil if it is standalone.
func (f *Server) peer() *show.Peer {
	if !f.Config.Replicated() {
		return nil
	}
	st := f.Role()
	p := &show.Peer{ID: int64(f.ID.Number()), Leads: st.Role == zab.Leading, Leader: leaderOf(st), Voter: !st.Observer, Activity: activityOf(st)}
	f.State.RLock()
	text, _ := f.State.Tree.Data(datatree.ConfigPath)
	members, err := config.ParseMembers(string(text))
	f.State.RUnlock()
	if err != nil || len(members.Servers) == 0 {
		members = f.Config.Members // nothing has been received yet
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
		case m.ID == int64(f.ID.Number()) && f.Config.ClientPort > 0: // of the others it does not know
			row.Client = config.Endpoint{Host: cmp.Or(f.Config.ClientPortAddress, "0.0.0.0"), Port: f.Config.ClientPort}.String()
		}
		p.Members = append(p.Members, row)
	}
	if peers := f.Peers(); p.Leads && peers != nil {
		p.Observers = f.observers(*peers)
	}
	return p
}

// observers returns the observers that follow this leader.
func (f *Server) observers(peers []zab.PeerStatus) (list []show.Observer) {
	links := f.Transport.Peers()
	for _, o := range peers {
		i := slices.IndexFunc(links, func(l transport.PeerStatus) bool { return l.ID == o.ID })
		if !o.Observer || !o.Synced || i < 0 {
			continue
		}
		l := &links[i]
		list = append(list, show.Observer{ID: int64(o.ID.Number()), Remote: l.Hello.Addr, Since: l.Since, Received: l.FramesIn, Sent: l.FramesOut,
			Queued: l.ControlBytes + l.BulkBytes, Requests: f.Requests(o.ID), Zxid: int64(o.Match)})
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
func (f *Server) lastSnapshot() show.Snapshot {
	ref, ok := f.Snapshots.Last()
	if !ok {
		return show.Snapshot{}
	}
	s := show.Snapshot{Zxid: int64(ref.Zxid)}
	if info, err := f.FS.Stat(f.Store.Path(ref.Name)); err == nil {
		s.At = info.ModTime()
	}
	return s
}

// TakeSnapshot implements admin.Server.
func (f *Server) TakeSnapshot(ctx context.Context) (admin.Snapshot, error) {
	ref, err := f.Snapshots.Newest(ctx, f.State.Applied())
	if err != nil {
		return admin.Snapshot{}, err
	}
	file, err := f.Store.Open(data.StoreRef(ref))
	if err != nil {
		return admin.Snapshot{}, err
	}
	return admin.Snapshot{ReadCloser: file, Zxid: int64(ref.Zxid), Size: ref.Size}, nil
}

// ShedConnections implements admin.Server.
func (f *Server) ShedConnections(percent int) int { return f.Clients.Drain().Shed(percent) }

// StuckAfter is the time after which a part of the server that does not answer counts as
// stuck. It is longer than any pause that a slow disk or a busy machine explains.
const StuckAfter = 10 * time.Second

// Health implements admin.Server.
func (f *Server) Health() []show.Check {
	loop := show.Check{Name: "loop", Concern: show.Live}
	done := make(chan struct{})
	f.Ping(done)
	select {
	case <-done:
	case <-f.Stopping:
		loop.Problem = "the server is stopping"
	case <-time.After(StuckAfter):
		loop.Problem = fmt.Sprintf("the loop that orders requests has not answered for %v", StuckAfter)
	}
	applier := show.Check{Name: "applier", Concern: show.Live}
	if since := f.Working(); since != 0 && f.Now()-since > StuckAfter {
		applier.Problem = fmt.Sprintf("the goroutine that applies transactions has been busy with one step for %v", (f.Now() - since).Round(time.Second))
	}
	disk := show.Check{Name: "disk", Concern: show.Live}
	log := show.Check{Name: "log", Concern: show.Ready}
	switch stats := f.Log.Stats(); {
	case stats.Lacks != nil: // a restart brings no room
		log.Problem = fmt.Sprintf("the log waits, no segment can be begun: %v", stats.Lacks)
	case stats.Pending > StuckAfter:
		disk.Problem = fmt.Sprintf("a write to the log has not ended for %v: see the disk of %s", stats.Pending.Round(time.Second), f.Config.DataLogDir)
	}
	clients := show.Check{Name: "clients", Concern: show.Ready}
	clients.Note = strings.Join(f.Remarks(), "; ")
	switch {
	case f.Ending():
		clients.Problem = "the server is stopping"
	case f.ReadOnly():
		clients.Problem = "no quorum is reached: only read-only clients are served"
	case !f.Serving():
		role := *f.Role()
		text := show.DescribeRole(&role)
		if role.Awaits != "" {
			text += "; " + role.Awaits
		}
		clients.Problem = fmt.Sprintf("no leader is known: %s (no service for %v)", text, (f.Now() - f.IdleSince()).Round(time.Second))
	}
	peers := show.Check{Name: "peers", Concern: show.Ready}
	if f.Transport != nil {
		if deaf := f.Transport.Deaf(); deaf != "" {
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
