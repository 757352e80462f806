package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/server/limits"
)

// limitPrefix begins the keys of rules; the rule's name follows.
const limitPrefix = "zkd.limit."

func limitKeys(c *Config) []Key {
	return []Key{
		{Name: limitPrefix + "*", Protects: true, Live: true,
			Doc: "`zkd.limit.<name>=<subject> <limits>`: a rule that limits what clients may use, such as `identity * requests/s=1000,2000 watches=500`, or their weight on a busy server. See limits.md."},
		{Name: "zkd.limitCodes", Default: "common", Live: true, value: oneOf(&c.LimitCodes, "common", "exact"),
			Doc: "Replies to requests that a rule refuses: `common` is OperationTimeout for rates and NoAuth for counts, which all clients know; `exact` is ThrottledOp and QuotaExceeded, which end kazoo's connection thread for good."},
		{Name: "zkd.limitsInQuota", Default: "false", Live: true, value: truth(&c.LimitsInQuota),
			Doc: "Follow the limits of rates in znodes `/zookeeper/quota/<path>/zkd_limits`. See limits.md."},
		{Name: strings.TrimSuffix(limitPrefix, ".") + "*", Status: Later, Protects: true,
			Doc: "there is no such key; a rule is zkd.limit.<name>"},
	}
}

// resolveLimits reads the rules.
func (l *loader) resolveLimits() {
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(l.set)), func(key string) bool { return !strings.HasPrefix(key, limitPrefix) })
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(l.set[a].origin.Line, l.set[b].origin.Line), cmp.Compare(a, b))
	})
	for _, key := range keys {
		p := l.set[key]
		rule, err := limits.ParseRule(key[len(limitPrefix):], p.value)
		if err == nil {
			err = limits.Conflict(append(slices.Clip(l.c.Limits), rule))
		}
		if err != nil {
			l.fail(p, "%v", err)
			continue
		}
		l.c.Limits = append(l.c.Limits, rule)
	}
}
