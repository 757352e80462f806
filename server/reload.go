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
	return s.settings.Reload(cfg)
}

// tellSettings tells the parts about the live configuration that do not read it when they need a
// value.
func (s *Server) tellSettings(cfg *config.Config) {
	s.clients.Audit(s.audit.Log(), cfg.Audit.Reads)
	if s.opts.Level != nil {
		if level, err := zapcore.ParseLevel(cfg.LogLevel); err == nil { // the table of keys has checked it
			s.opts.Level.SetLevel(level)
		}
	}
	s.clients.Reload(cfg)
	s.traces.SetRatio(cfg.Traces.Ratio)
	s.logWriter.log.SetFsyncWarn(cfg.FsyncWarningThreshold)
	s.events.Put(peerEvent{kind: evReload})
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
