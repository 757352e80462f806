package server

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/zab"
)

// missingVoters are the voters whose acknowledgements a leader does not count. The
// housekeeper looks for them.
type missingVoters struct {
	since
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
	if peers, lists := s.peers.Load(), s.lists.Load(); s.ensemble() && s.leads() && peers != nil && lists != nil {
		for _, m := range lists.settled.List {
			if !lists.settled.Voter(m.ID) || m.ID == s.id {
				continue
			}
			if !slices.ContainsFunc(*peers, func(p zab.PeerStatus) bool { return p.ID == m.ID && p.Synced && p.Counted }) {
				ids = append(ids, m.ID)
			}
		}
	}
	s.missing.set(len(ids) > 0, now)
	s.missing.mu.Lock()
	s.missing.mu.ids = ids
	s.missing.mu.Unlock()
}

// troubles returns what the server knows to be wrong with it.
func (s *Server) troubles() (t monitor.Troubles) {
	now := s.now()
	t.Clock = time.Now()
	t.FsyncPending = s.logWriter.Stats().Pending
	t.DiskFull = s.disk.full.lasts(now)
	t.SnapshotsFail = s.snapshots.fails.lasts(now)
	if text := s.snapshots.failure.Load(); text != nil && t.SnapshotsFail > 0 {
		t.SnapshotError = *text
	}
	t.OpenRoot = s.openRoot()
	if s.metrics.RepliesLong.Load()+s.metrics.RepliesRefused.Load() > 0 {
		t.LongReply = max(now-time.Duration(s.metrics.LastLongReply.Load()), 1)
	}
	if s.leads() || !s.ensemble() {
		t.ExpiringSessions = s.tracker.Expiring(millis(now))
	}
	t.MissingVoters, t.VotersMissing = s.missing.get(), s.missing.lasts(now)
	if s.clientTLS != nil {
		t.ClientCertificate = s.clientTLS.Expiry()
	}
	if s.transport != nil {
		t.QuorumCertificate = s.transport.CertificateExpiry()
		t.PeerListen = s.transport.Deaf()
	}
	return t
}

// openRoot reports whether everybody may change the tree through a port without TLS that
// other machines reach.
func (s *Server) openRoot() bool {
	addr, ok := s.clients.Addr().(*net.TCPAddr)
	if !ok || addr.IP.IsLoopback() {
		return false
	}
	s.state.RLock()
	defer s.state.RUnlock()
	root, _ := s.state.Tree.Get("/")
	return s.schemes.Allowed(root.ACL, jute.PermAll&^jute.PermRead, nil)
}
