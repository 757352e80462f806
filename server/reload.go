package server

import (
	"go.uber.org/zap/zapcore"

	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/monitor"
)

// Reload takes over the values of another configuration that can change while the server
// runs: those of the keys that are Live. It returns what has changed. What clients have set
// before no longer counts. An error means that nothing has changed. Start must have succeeded.
func (s *Server) Reload(cfg *config.Config) ([]config.Difference, error) {
	s.configured.Lock()
	defer s.configured.Unlock()
	next, err := s.live.Load().TakeOver(cfg, "")
	if err != nil {
		return nil, err
	}
	changes, err := s.takeOverLocked(next)
	if err == nil {
		s.configured.settings = nil
	}
	return changes, err
}

// takeOverLocked makes a configuration the live one. Most parts read it when they need a value;
// it tells the others.
func (s *Server) takeOverLocked(cfg *config.Config) ([]config.Difference, error) {
	if err := s.audit.Switch(&cfg.Audit); err != nil {
		return nil, err
	}
	s.clients.Audit(s.audit.Log(), cfg.Audit.Reads)
	changes := s.live.Load().Differences(cfg)
	s.live.Store(cfg)
	if s.opts.Level != nil {
		if level, err := zapcore.ParseLevel(cfg.LogLevel); err == nil { // the table of keys has checked it
			s.opts.Level.SetLevel(level)
		}
	}
	s.clients.Reload(cfg)
	s.traces.SetRatio(cfg.Traces.Ratio)
	s.logWriter.log.SetFsyncWarn(cfg.FsyncWarningThreshold)
	s.events.Put(peerEvent{kind: evReload})
	for _, reloaded := range []chan struct{}{s.snapshots.reloaded, s.reloaded} {
		select {
		case reloaded <- struct{}{}:
		default:
		}
	}
	return changes, nil
}

// evaluateOptions are those that a configuration asks for.
func evaluateOptions(cfg *config.Config, m *monitor.Metrics) evaluate.Options {
	return evaluate.Options{
		ExtendedTypes:   cfg.ExtendedTypes,
		EnforceQuota:    cfg.EnforceQuota,
		ReconfigEnabled: cfg.ReconfigEnabled,
		QuotaExceeded:   m.QuotaErrors.CountOne,
	}
}
