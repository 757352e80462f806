package server

import (
	"errors"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/traces"
)

// newTraces starts to trace requests. It returns nil if nobody takes the spans.
func newTraces(s *Server) (*traces.Tracer, error) {
	c := &s.cfg.Traces
	if s.opts.TraceExporter == nil {
		if c.Endpoint != "" {
			return nil, errors.New("zkd.traces.endpoint: this program sends no traces: server.Options has no TraceExporter")
		}
		return nil, nil
	}
	return traces.Start(traces.Options{
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
	}), nil
}
