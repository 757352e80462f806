package server

import "github.com/zkd-project/zkd/server/config"

// live has, for each key that can change while the server runs, the function that gives its
// value to the part that it concerns.
func (s *Server) live() map[string]func(*config.Config) {
	return map[string]func(*config.Config){
		"snapCount":                 func(c *config.Config) { s.snapshots.count.Store(int64(c.SnapCount)) },
		"autopurge.snapRetainCount": func(c *config.Config) { s.snapshots.retain.Store(int64(c.SnapRetainCount)) },
		"maxClientCnxns":            func(c *config.Config) { s.clients.SetMaxPerAddress(c.MaxClientCnxns) },
		"maxCnxns":                  func(c *config.Config) { s.clients.SetMax(c.MaxCnxns) },
		"4lw.commands.whitelist":    func(c *config.Config) { s.clients.SetWords(whitelist(c)) },
	}
}

// Reload takes over the values of another configuration that can change while the server
// runs: those of the keys that are Live, but for the log's, which is the caller's. Start must
// have succeeded. The server's Config stays as it is.
func (s *Server) Reload(cfg *config.Config) {
	for _, take := range s.live() {
		take(cfg)
	}
}

// HandOver makes another server the leader, if this one leads and another one can. It
// reports whether this one has ended to lead.
func (s *Server) HandOver() bool {
	if !s.ensemble() || !s.leads() {
		return false
	}
	s.handOver()
	return !s.leads()
}
