package server

import (
	"net"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/show"
)

// troubles returns what the server knows to be wrong with it.
func (o *overview) troubles() (t show.Troubles) {
	now := o.now()
	t.Clock = o.clock.Wall()
	if jump := o.clock.Jump(); jump.Count > 0 {
		t.ClockJump, t.ClockJumpAgo = jump.By, now-jump.At
	}
	stats := o.logWriter.Stats()
	t.FsyncPending, t.LogLacks = stats.Pending, stats.Lacks
	t.DiskFull, t.DiskLacks = o.disk.full.Lasts(now), o.disk.lacks()
	t.MemoryShort = o.memory.shortFor.Lasts(now)
	t.SnapshotsFail = o.snapshots.fails.Lasts(now)
	if text := o.snapshots.failure.Load(); text != nil && t.SnapshotsFail > 0 {
		t.SnapshotError = *text
	}
	t.OpenRoot = o.openRoot()
	if request := o.metrics.BrokenRequest.Load(); request != nil {
		t.BrokenRequest = *request
	}
	if o.metrics.RepliesLong.Load()+o.metrics.RepliesRefused.Load() > 0 {
		t.LongReply = max(now-time.Duration(o.metrics.LastLongReply.Load()), 1)
	}
	o.state.RLock()
	t.RetiredSince = o.state.Tree.RetiredSince()
	o.state.RUnlock()
	if t.RetiredSince == 0 && (o.standing.leads() || !o.cfg.Replicated()) {
		t.ExpiringSessions = o.tracker.Expiring(millis(now))
	}
	t.MissingVoters, t.VotersMissing = o.missing.get(), o.missing.Lasts(now)
	if o.clientTLS != nil {
		t.ClientCertificate, t.ClientReload = o.clientTLS.Expiry(), o.clientTLS.ReloadFailure()
		t.ClientRevocations = o.clientTLS.ListExpiry()
	}
	if o.transport != nil {
		t.QuorumCertificate, t.QuorumReload = o.transport.CertificateExpiry(), o.transport.ReloadFailure()
		t.QuorumRevocations = o.transport.ListExpiry()
		t.PeerListen = o.transport.Deaf()
		for _, p := range o.transport.Peers() {
			if !p.CertificateUntil.IsZero() || p.CertificateError != "" {
				t.PeerCertificates = append(t.PeerCertificates, show.PeerCertificate{ID: p.ID, Until: p.CertificateUntil, Error: p.CertificateError})
			}
		}
	}
	t.AuditLacks = o.audit.Lacks()
	t.Accept = o.clients.Ports().Lacks()
	t.UnlistedSecurePort = o.unlistedSecurePort()
	return t
}

// unlistedSecurePort returns this server's port with TLS for clients if its line in the list of members
// has not got it, as that is what clients and tools find the members by; 0 if all is well.
func (o *overview) unlistedSecurePort() int {
	if at, ok := o.clients.Ports().SecureAddr().(*net.TCPAddr); ok && o.cfg.Replicated() {
		return unlisted(o.members(), int64(o.id.Number()), at.Port)
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
func (o *overview) members() config.Members {
	o.state.RLock()
	text, _ := o.state.Tree.Data(datatree.ConfigPath)
	members, err := config.ParseMembers(string(text))
	o.state.RUnlock()
	if err != nil || len(members.Servers) == 0 {
		return o.cfg.Members
	}
	return members
}

// openRoot reports whether everybody may change the tree through a port without TLS that
// other machines reach.
func (o *overview) openRoot() bool {
	addr, ok := o.clients.Ports().Addr().(*net.TCPAddr)
	if !ok || addr.IP.IsLoopback() || o.demandsProof() {
		return false
	}
	o.state.RLock()
	defer o.state.RUnlock()
	root, _ := o.state.Tree.Get("/")
	return o.schemes.Allowed(root.ACL, jute.PermAll&^jute.PermRead, nil)
}

// demandsProof reports whether clients have to prove who they are: enforce.auth.schemes has no scheme
// whose identities anybody can take.
func (o *overview) demandsProof() bool {
	live := o.live()
	return live.EnforceAuth && !slices.ContainsFunc(live.EnforceAuthSchemes, func(scheme string) bool {
		return scheme == "ip" || scheme == "digest" || scheme == "world"
	})
}
