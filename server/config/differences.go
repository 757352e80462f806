package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Difference is a key with different values in two configurations.
type Difference struct {
	Key           string
	Before, After string // "" if it is not set
	// Live means that a running server can take over the new value.
	Live bool
}

// Differences returns the keys whose values in o differ, in their order. It leaves out the
// members and the name of their file, which a running server writes itself, and secrets.
func (c *Config) Differences(o *Config) (list []Difference) {
	before, after := keyTable(c), keyTable(o)
	for i, k := range before {
		if k.Status != Honoured || k.Name == "dynamicConfigFile" || k.value.secret {
			continue
		}
		if k.value.get != nil {
			if a, b := k.value.get(), after[i].value.get(); a != b {
				list = append(list, Difference{k.Name, a, b, k.Live})
			}
			continue
		}
		prefix, isPattern := strings.CutSuffix(k.Name, "*")
		if _, _, member := memberKey(prefix + "1"); !isPattern || member {
			continue
		}
		names := slices.Concat(slices.Collect(maps.Keys(c.settings)), slices.Collect(maps.Keys(o.settings)))
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if a, b := c.settings[name].value, o.settings[name].value; strings.HasPrefix(name, prefix) && a != b {
				list = append(list, Difference{name, a, b, k.Live})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Difference) int { return cmp.Compare(a.Key, b.Key) })
	return slices.CompactFunc(list, func(a, b Difference) bool { return a.Key == b.Key })
}
