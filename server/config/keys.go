package config

import (
	"slices"
	"strings"
	"sync"

	"github.com/zkd-project/zkd/internal/similar"
)

// Status is zkd's handling of a key.
type Status int

const (
	// Honoured keys have the same effect as in Apache's server, or the one described in
	// Doc.
	Honoured Status = iota
	// Ignored keys are accepted and have no effect; Doc gives the reason.
	Ignored
	// Later keys belong to a feature that zkd does not have yet.
	Later
	// OfEdge keys belong to the configuration of zkd edge.
	OfEdge
)

// String renders s as the documentation does.
func (s Status) String() string {
	return [...]string{"honoured", "ignored", "for a later feature", "of zkd edge"}[s]
}

// Key is a row of the table of keys.
type Key struct {
	// Name is the key as it is written in zoo.cfg. A name that ends in "*" is the row of
	// every key with the part before the "*" as its prefix.
	Name string
	// Aliases are other names that are accepted. The prefix "zookeeper." is
	// accepted before any name.
	Aliases []string
	// Default is the value of a key that is not set, "" if there is none.
	Default string
	Status  Status
	// Protects means that an operator who sets the key relies on it for protection. If
	// zkd does not honour the key, a value that asks for protection stops the start. So
	// does a misspelling of the name.
	Protects bool
	// HoldsSecret means that the value is the name of a file that has a secret.
	HoldsSecret bool
	// Clamp means that a number beyond the allowed ones counts as the nearest of them, with a warning:
	// Apache's server starts with it, and takes it to mean that.
	Clamp bool
	// Live means that a running server can take over another value: see Config.Differences.
	Live bool
	// Doc is the meaning of the key, or the reason why it has no effect.
	Doc string

	value    value    // of honoured keys, and of others whose value is checked
	harmless []string // values that ask for nothing beyond what zkd does, besides false and the like
}

// requestsFeature reports whether a value of a key that zkd does not honour asks for something. A
// value that turns a feature off does not.
func (k Key) requestsFeature(value string) bool {
	switch strings.ToLower(value) {
	case "", "false", "no", "none", "off", "0", "-1":
		return false
	}
	return !slices.Contains(k.harmless, value)
}

// Unit returns the unit of the value, "" if it has none.
func (k Key) Unit() string { return k.value.unit }

// Allowed describes the valid values, "" if the value is not checked.
func (k Key) Allowed() string { return k.value.allowed }

// Samples returns a value of each kind that the key has: the least, the greatest and the
// usual value of a number, and the value that turns it off; each word of an enumeration.
// It is empty for a key whose values depend on the machine, such as files, and for the
// keys of members.
func (k Key) Samples() []string {
	samples := slices.Clone(k.value.samples)
	if k.Default != "" && !slices.Contains(samples, k.Default) {
		samples = append(samples, k.Default)
	}
	return samples
}

// Keys returns the table of keys, in the order of the documentation.
func Keys() []Key { return keyTable(new(Config)) }

// keyTable returns the table of keys, bound to the fields of c.
func keyTable(c *Config) []Key {
	return slices.Concat(
		fileKeys(c), clientKeys(c), requestKeys(c), treeKeys(c), securityKeys(c), operatingKeys(c), ensembleKeys(c),
		clientTLSKeys(c), quorumTLSKeys(c), metricsTLSKeys(c), identityKeys(c), saslKeys(c), quorumSASLKeys(c), auditKeys(c), adminKeys(c), limitKeys(c), edgesKeys(c), secureKeys(c), autopilotKeys(c), traceKeys(c), edgeKeys(c),
		laterKeys(), ignoredKeys(),
	)
}

// directory finds keys by the names that users write.
type directory struct {
	keys   []Key
	byName map[string]int
}

// unbound returns the directory of the keys without a configuration that they set.
var unbound = sync.OnceValue(func() directory { return newDirectory(Keys()) })

func newDirectory(keys []Key) directory {
	d := directory{keys: keys, byName: make(map[string]int)}
	for i, k := range keys {
		d.byName[k.Name] = i
		for _, alias := range k.Aliases {
			d.byName[alias] = i
		}
	}
	return d
}

// find returns the key with this name. If several patterns match, the longest one wins.
func (d directory) find(name string) (key Key, known bool) {
	short := strings.TrimPrefix(name, "zookeeper.")
	if i, ok := d.byName[short]; ok {
		return d.keys[i], true
	}
	for _, k := range d.keys {
		prefix, isPattern := strings.CutSuffix(k.Name, "*")
		if isPattern && strings.HasPrefix(short, prefix) && len(k.Name) > len(key.Name) {
			key, known = k, true
		}
	}
	return key, known
}

// nearest returns the known name that name most likely misspells, and its row; "" if none
// is near.
func (d directory) nearest(name string) (best string, key Key) {
	short := strings.ToLower(strings.TrimPrefix(name, "zookeeper."))
	if len(short) > 100 {
		return "", Key{} // longer than any key; not worth the time
	}
	bestDistance := 1 + max(1, len(short)/4)
	for _, k := range d.keys {
		for _, known := range append([]string{k.Name}, k.Aliases...) {
			dist := similar.Distance(short, strings.ToLower(known))
			if dist < bestDistance && !strings.HasSuffix(known, "*") {
				best, key, bestDistance = known, k, dist
			}
		}
	}
	return best, key
}
