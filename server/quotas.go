package server

import (
	"slices"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/show"
)

// exceededQuotas are the paths whose quota was exceeded at the last check.
type exceededQuotas map[string]bool

// watchQuotas logs the quotas that are exceeded since the last check, and those that no
// longer are. A soft limit has no other effect (semantics.md section 12). The leader does
// it for all servers; other servers forget.
func (s *Server) watchQuotas(last exceededQuotas) exceededQuotas {
	if !s.standing.leads() {
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

// recountQuotas has the usage of quotas counted again that is not that of their subtrees. The leader does it.
func (s *Server) recountQuotas() {
	if !s.standing.leads() {
		return
	}
	s.state.RLock()
	drifting := slices.Sorted(s.state.Tree.Drifting())
	s.state.RUnlock()
	for _, path := range drifting[:min(len(drifting), maxRecounts)] {
		s.log.Info("the usage of a quota is counted again", zap.String("path", path))
		s.submissions.Put(replica.Submission{
			Received: s.now(),
			Request:  evaluate.Request{Op: jute.OpDeleteContainer, Recount: path},
		})
	}
}

// maxRecounts is how many quotas are counted at a time: there may be many quotas in quotas.
const maxRecounts = 100

// quotas returns the quotas of each namespace.
func (s *Server) quotas() []show.NamespaceQuotas {
	s.state.RLock()
	list := slices.Collect(s.state.Tree.Quotas())
	s.state.RUnlock()
	return show.ByNamespace(list)
}

// quotaFields returns the usage and the limits that are set.
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
