package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/limits"
)

// TakeOver returns the configuration of a server that was running with c and takes over the
// live keys of o: all of them if key is "", and otherwise only that one, which LiveKey has
// returned. It fails if the values of o can't be used together with the other values of c.
func (c *Config) TakeOver(o *Config, key string) (*Config, error) {
	next := c.takeOver(o, key)
	if next.MinSessionTimeout > next.MaxSessionTimeout {
		return nil, fmt.Errorf("the smallest session timeout would be %v, and the largest %v, which is less", next.MinSessionTimeout, next.MaxSessionTimeout)
	}
	if next.EnforceAuth {
		if len(next.EnforceAuthSchemes) == 0 {
			return nil, errors.New("enforce.auth.enabled=true needs at least one scheme in enforce.auth.schemes")
		}
		for _, scheme := range next.EnforceAuthSchemes {
			if !c.HasScheme(scheme) {
				return nil, fmt.Errorf("enforce.auth.schemes: this server has no scheme %s before it is restarted, so no client could satisfy that", scheme)
			}
		}
	}
	for i := range next.Edges {
		if err := c.checkEdge(&next.Edges[i]); err != nil {
			return nil, fmt.Errorf("%s%s, on this server before it is restarted: %w", edgesPrefix, next.Edges[i].Name, err)
		}
	}
	return next, limits.Conflict(next.Limits)
}

// takeOver takes over the live keys of o: all of them, or only one if key is not "".
func (c *Config) takeOver(o *Config, key string) *Config {
	next := *c
	next.settings = maps.Clone(c.settings)
	to, from := keyTable(&next), keyTable(o)
	for i, k := range to {
		prefix, isPattern := strings.CutSuffix(k.Name, "*")
		switch {
		case !k.Live:
		case isPattern:
			next.takeRules(o, prefix, key)
		case key == "" || key == k.Name:
			k.value.set(from[i].value.get())
			next.takeOrigin(o, k.Name)
		}
	}
	// What follows from tickTime follows from the one that the server runs with.
	if !next.sets("minSessionTimeout") {
		next.MinSessionTimeout = next.defaultMinSession()
	}
	if !next.sets("maxSessionTimeout") {
		next.MaxSessionTimeout = next.defaultMaxSession()
	}
	return &next
}

// sets reports whether a key was given a value other than -1, which means the default.
func (c *Config) sets(key string) bool {
	p, given := c.settings[key]
	return given && p.value != "-1"
}

// LiveKey returns the name in the table of a key that can change while a server runs, or that of
// a single rule. The error says why it can't.
func LiveKey(name string) (string, error) {
	dir := newDirectory(keyTable(new(Config)))
	k, known := dir.find(name)
	switch {
	case !known:
		if near, _ := dir.nearest(name); near != "" {
			return "", fmt.Errorf("there is no key %s: did you mean %s?", name, near)
		}
		return "", fmt.Errorf("there is no key %s", name)
	case k.Status != Honoured:
		return "", fmt.Errorf("%s has no effect: %s", name, k.Doc)
	case !k.Live:
		return "", fmt.Errorf("%s needs a restart: change it in the configuration file", k.Name)
	case strings.HasSuffix(k.Name, "*"):
		return strings.TrimPrefix(name, "zookeeper."), nil
	}
	return k.Name, nil
}

// takeRules takes over rules, those of limits or of edges, which are the only live keys of a pattern.
func (c *Config) takeRules(o *Config, prefix, key string) {
	if key != "" && !strings.HasPrefix(key, prefix) {
		return
	}
	taken := func(name string) bool { return strings.HasPrefix(name, prefix) && (key == "" || key == name) }
	for _, name := range slices.Concat(slices.Collect(maps.Keys(c.settings)), slices.Collect(maps.Keys(o.settings))) {
		if taken(name) {
			c.takeOrigin(o, name)
		}
	}
	if prefix == edgesPrefix {
		c.Edges = takenRules(c.Edges, o.Edges, func(r auth.EdgeRule) bool { return taken(prefix + r.Name) })
	} else {
		c.Limits = takenRules(c.Limits, o.Limits, func(r limits.Rule) bool { return taken(prefix + r.Name) })
	}
}

// takenRules returns some rules with those that are taken from others.
func takenRules[R any](mine, others []R, taken func(R) bool) []R {
	list := slices.DeleteFunc(slices.Clone(mine), taken)
	for _, r := range others {
		if taken(r) {
			list = append(list, r)
		}
	}
	return list
}

// takeOrigin takes over where a key was set.
func (c *Config) takeOrigin(o *Config, name string) {
	delete(c.settings, name)
	if p, given := o.settings[name]; given {
		c.settings[name] = p
	}
}
