package show

import (
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/monitor"
)

// NamespaceQuotas are the quotas of a namespace together.
type NamespaceQuotas struct {
	Name                  string
	CountLimit, ByteLimit int64 // -1 where no quota sets one; a hard limit counts before a soft one
	Count, Bytes          int64
}

// quotaNumbers are what ZooKeeper shows of the quotas of each namespace.
var quotaNumbers = []struct {
	name  string
	help  string
	value func(*NamespaceQuotas) int64
}{
	{"quota_count_limit_per_namespace", "Nodes that the quotas of a namespace allow, -1 if none limits them.", func(q *NamespaceQuotas) int64 { return q.CountLimit }},
	{"quota_bytes_limit_per_namespace", "Bytes of data that the quotas of a namespace allow, -1 if none limits them.", func(q *NamespaceQuotas) int64 { return q.ByteLimit }},
	{"quota_count_usage_per_namespace", "Nodes for which the quotas of a namespace count.", func(q *NamespaceQuotas) int64 { return q.Count }},
	{"quota_bytes_usage_per_namespace", "Bytes of data for which the quotas of a namespace count.", func(q *NamespaceQuotas) int64 { return q.Bytes }},
}

// ByNamespace adds up quotas by namespace, in the order of names. What is beyond monitor.MaxNamespaces
// is left out, and so are names longer than monitor.MaxNamespaceName.
func ByNamespace(quotas []datatree.Quota) []NamespaceQuotas {
	byName := make(map[string]*NamespaceQuotas)
	add := func(sum *int64, soft, hard int64) {
		if hard >= 0 {
			soft = hard
		}
		if soft >= 0 {
			*sum = max(*sum, 0) + soft
		}
	}
	for i := range quotas {
		q := &quotas[i]
		name, _, _ := strings.Cut(strings.TrimPrefix(q.Path, "/"), "/")
		if len(name) > monitor.MaxNamespaceName {
			continue
		}
		n := byName[name]
		if n == nil {
			n = &NamespaceQuotas{Name: name, CountLimit: -1, ByteLimit: -1}
			byName[name] = n
		}
		add(&n.CountLimit, q.Limits.Count, q.Limits.CountHard)
		add(&n.ByteLimit, q.Limits.Bytes, q.Limits.BytesHard)
		n.Count, n.Bytes = n.Count+q.Usage.Count, n.Bytes+q.Usage.Bytes
	}
	var list []NamespaceQuotas
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if len(list) < monitor.MaxNamespaces {
			list = append(list, *byName[name])
		}
	}
	return list
}
