package mirror

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/pages"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// Pages returns the pages of the AdminServer about a mirror that has readers. What it has of the log, and its
// newest snapshot, can be had there, as of a server: so others may follow it. The HTTP API and the console are there if they
// are for a server with this configuration, and only read. look, which may be nil, is what the API's Ensemble asks.
func (m *Mirror) Pages(look func(context.Context) *api.Ensemble) http.Handler {
	r := m.readers
	none := func() time.Duration { return 0 }
	p := copyPages{&pages.Server{
		Source:      r.words.Source(0),
		Config:      r.cfg,
		FS:          vfs.OS{},
		Now:         r.clock.Now,
		State:       r.state,
		Configured:  r.settings,
		Clients:     r.clients,
		Schemes:     r.identities.Schemes,
		Changes:     r.changes,
		Log:         m.writer,
		Snapshots:   snapshots{m},
		Store:       m.store,
		ID:          m.ident.Server,
		Incarnation: m.ident.Incarnation,
		Role:        func() *zab.Status { return &zab.Status{} },
		Peers:       func() *[]zab.PeerStatus { return nil },
		IdleSince:   none,
		Remarks:     func() []string { return nil },
		Ping:        func(done chan<- struct{}) { close(done) },
		Working:     none,
		Lacks:       r.lacks(),
		Stopping:    r.life.Stopping(),
		Ending:      r.life.Ending,
	}}
	return pages.Handler(pages.Options{
		Asked: func() pages.Asked { return p }, Config: r.cfg, Live: func() *config.Config { return r.cfg }, URL: r.cfg.Admin.URL, Text: r.cfg.FileText(), Version: r.version, Logger: r.log, Audit: r.audit,
		Ensemble: look, Provider: r.identities.SignIn, ReadOnly: true,
	})
}

// lacks returns what pages.Server has as Lacks; nil of a copy that is no standby.
func (r *readers) lacks() func() copies.Left {
	if r.standby == nil {
		return nil
	}
	return func() copies.Left {
		s := r.standby()
		return copies.Left{Entries: s.LagEntries, Bytes: s.LagBytes, Behind: s.Lag, Via: s.Via}
	}
}

// copyPages is what the pages ask of a mirror.
type copyPages struct{ *pages.Server }

// Past says that it is not shown.
func (copyPages) Past() api.Past { return nil }

// Health returns the checks of readyz: clients that accept a read-only server can read.
func (p copyPages) Health() []show.Check {
	c := show.Check{Name: "clients", Concern: show.Ready, Note: "a copy of another ensemble: only read-only clients are served"}
	if s := p.View().Standby; s.Of != "" {
		c.Note = "a standby, which only read-only clients may read: " + s.String()
	}
	if !p.ReadOnly() {
		c.Note, c.Problem = "", "there is no copy of the other ensemble yet"
	}
	return []show.Check{c}
}

// snapshots are those of a mirror.
type snapshots struct{ *Mirror }

// Last returns the newest one, if there is one.
func (s snapshots) Last() (wal.SnapRef, bool) {
	if ref := s.newest.Load(); ref != nil {
		return *ref, true
	}
	return wal.SnapRef{}, false
}

// Newest returns the newest one, which may be older than is asked for: the log has what follows.
func (s snapshots) Newest(context.Context, jute.Zxid) (wal.SnapRef, error) {
	ref, ok := s.Last()
	if !ok {
		return ref, fmt.Errorf("there is no copy in %s yet", s.place.DataDir)
	}
	return ref, nil
}
