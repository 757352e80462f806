package server

import (
	"slices"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/datatree"
)

// exceededQuotas are the paths whose quota was exceeded at the last look.
type exceededQuotas map[string]bool

// watchQuotas logs which quotas are exceeded that were not at the last look, and
// which are no more. That is all that a soft limit does (semantics.md section
// 12). The leader does it for all servers: who does not lead forgets.
func (s *Server) watchQuotas(last exceededQuotas) exceededQuotas {
	if !s.leads() {
		return nil
	}
	s.state.RLock()
	list := slices.Collect(s.state.Tree.Exceeded())
	s.state.RUnlock()
	now := make(exceededQuotas, len(list))
	for i := range list {
		q := &list[i]
		now[q.Path] = true
		if !last[q.Path] {
			s.log.Warn("a quota is exceeded", quotaFields(q)...)
		}
	}
	for path := range last {
		if !now[path] {
			s.log.Info("a quota is not exceeded any more", zap.String("path", path))
		}
	}
	return now
}

// quotaFields tells what is used, and the limits that there are.
func quotaFields(q *datatree.Quota) []zap.Field {
	fields := []zap.Field{zap.String("path", q.Path), zap.Int64("nodes", q.Usage.Count), zap.Int64("bytes", q.Usage.Bytes)}
	for _, limit := range []struct {
		name  string
		value int64
	}{
		{"soft_nodes", q.Limits.Count}, {"soft_bytes", q.Limits.Bytes},
		{"hard_nodes", q.Limits.CountHard}, {"hard_bytes", q.Limits.BytesHard},
	} {
		if limit.value >= 0 {
			fields = append(fields, zap.Int64(limit.name, limit.value))
		}
	}
	return fields
}
