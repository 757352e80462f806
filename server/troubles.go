package server

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/zab"
)

// missingVoters are the voters whose acknowledgements a leader does not count. The
// housekeeper looks for them.
type missingVoters struct {
	base.Since
	mu struct {
		sync.Mutex
		ids []zab.SID
	}
}

func (m *missingVoters) get() []zab.SID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.ids
}

// watchVoters looks for voters that are missing.
func (s *Server) watchVoters(now time.Duration) {
	var ids []zab.SID
	if peers, lists := s.standing.peers.Load(), s.standing.lists.Load(); s.ensemble() && s.standing.leads() && peers != nil && lists != nil {
		for _, m := range lists.settled.List {
			if !lists.settled.Voter(m.ID) || m.ID == s.id {
				continue
			}
			if !slices.ContainsFunc(*peers, func(p zab.PeerStatus) bool { return p.ID == m.ID && p.Synced && p.Counted }) {
				ids = append(ids, m.ID)
			}
		}
	}
	s.missing.Set(len(ids) > 0, now)
	s.missing.mu.Lock()
	s.missing.mu.ids = ids
	s.missing.mu.Unlock()
}

// troubles returns what the server knows to be wrong with it.
func (s *Server) troubles() (t show.Troubles) {
	now := s.now()
	t.Clock = time.Now()
	stats := s.logWriter.Stats()
	t.FsyncPending, t.LogLacks = stats.Pending, stats.Lacks
	t.DiskFull = s.disk.full.Lasts(now)
	t.SnapshotsFail = s.snapshots.fails.Lasts(now)
	if text := s.snapshots.failure.Load(); text != nil && t.SnapshotsFail > 0 {
		t.SnapshotError = *text
	}
	t.OpenRoot = s.openRoot()
	if s.metrics.RepliesLong.Load()+s.metrics.RepliesRefused.Load() > 0 {
		t.LongReply = max(now-time.Duration(s.metrics.LastLongReply.Load()), 1)
	}
	if s.standing.leads() || !s.ensemble() {
		t.ExpiringSessions = s.tracker.Expiring(millis(now))
	}
	t.MissingVoters, t.VotersMissing = s.missing.get(), s.missing.Lasts(now)
	if s.clientTLS != nil {
		t.ClientCertificate, t.ClientReload = s.clientTLS.Expiry(), s.clientTLS.ReloadFailure()
	}
	if s.transport != nil {
		t.QuorumCertificate, t.QuorumReload = s.transport.CertificateExpiry(), s.transport.ReloadFailure()
		t.PeerListen = s.transport.Deaf()
	}
	t.UnlistedSecurePort = s.unlistedSecurePort()
	return t
}

// unlistedSecurePort returns this server's port with TLS for clients if its line in the list of members
// has not got it, as that is what clients and tools find the members by; 0 if all is well.
func (s *Server) unlistedSecurePort() int {
	if at, ok := s.clients.SecureAddr().(*net.TCPAddr); ok && s.ensemble() {
		return unlisted(s.members(), int64(s.id.Number()), at.Port)
	}
	return 0
}

// unlisted returns the port unless the line of server id has it, or there is no such line: then 0.
func unlisted(members config.Members, id int64, port int) int {
	for _, m := range members.Servers {
		if m.ID == id && m.SecureClient.Port != port {
			return port
		}
	}
	return 0
}

// members returns the list of members, or that of the configuration before the server has got another
// one.
func (s *Server) members() config.Members {
	s.state.RLock()
	text, _ := s.state.Tree.Data(datatree.ConfigPath)
	members, err := config.ParseMembers(string(text))
	s.state.RUnlock()
	if err != nil || len(members.Servers) == 0 {
		return s.cfg.Members
	}
	return members
}

// openRoot reports whether everybody may change the tree through a port without TLS that
// other machines reach.
func (s *Server) openRoot() bool {
	addr, ok := s.clients.Addr().(*net.TCPAddr)
	if !ok || addr.IP.IsLoopback() || s.demandsProof() {
		return false
	}
	s.state.RLock()
	defer s.state.RUnlock()
	root, _ := s.state.Tree.Get("/")
	return s.identities.Schemes.Allowed(root.ACL, jute.PermAll&^jute.PermRead, nil)
}

// demandsProof reports whether clients have to prove who they are: enforce.auth.schemes has no scheme
// whose identities anybody can take.
func (s *Server) demandsProof() bool {
	live := s.settings.Live()
	return live.EnforceAuth && !slices.ContainsFunc(live.EnforceAuthSchemes, func(scheme string) bool {
		return scheme == "ip" || scheme == "digest" || scheme == "world"
	})
}
