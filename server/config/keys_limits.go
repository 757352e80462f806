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
			Doc: "`zkd.limit.<name>=<subject> <limits>`: a [rule](limits.md#limits-for-some-clients) that limits what clients may use, such as `identity * requests/s=1000,2000 watches=500`."},
		{Name: "zkd.limitCodes", Default: "common", Live: true, value: oneOf(&c.LimitCodes, "common", "exact"),
			Doc: "Replies to requests that a rule refuses: `common` is OperationTimeout for rates and NoAuth for counts; `exact` is ThrottledOp and QuotaExceeded, at which kazoo hangs."},
		{Name: "zkd.limitsInQuota", Default: "false", Live: true, value: truth(&c.LimitsInQuota),
			Doc: "Follow [the limits of rates](limits.md#rates-in-the-tree) in znodes `/zookeeper/quota/<path>/zkd_limits`."},
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
