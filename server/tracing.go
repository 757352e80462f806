package server

import (
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/traces"
)

// startTraces starts to trace requests, if the configuration says where to.
func (s *Server) startTraces() (err error) {
	c := &s.cfg.Traces
	if c.Endpoint == "" && s.opts.TraceExporter == nil {
		return nil
	}
	s.traces, err = traces.Start(traces.Options{
		Endpoint:    c.Endpoint,
		Exporter:    s.opts.TraceExporter,
		Ratio:       c.Ratio,
		ClientSpans: c.ClientSpans,
		Server:      uint8(s.id),
		Version:     s.opts.Version,
		Role: func() string {
			v := show.View{Ensemble: s.ensemble(), Role: s.standing.role.Load()}
			return v.RoleName()
		},
		Now: s.now,
		Lost: func(spans int, err error) {
			s.log.Warn("traces are lost: the collector did not take them", zap.Int("spans", spans), zap.Error(err))
		},
		Sampled: &s.metrics.Traced,
		Dropped: &s.metrics.TracesDropped,
	})
	return err
}
