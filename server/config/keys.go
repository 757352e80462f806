package config

import (
	"slices"
	"strings"
)

// Status tells what zkd does with a key.
type Status int

const (
	// Honoured keys do what they do in Apache's server, or what Doc says.
	Honoured Status = iota
	// Ignored keys are accepted and have no effect; Doc gives the reason.
	Ignored
	// Later keys belong to a feature that zkd does not have yet.
	Later
)

// String renders s as the documentation does.
func (s Status) String() string {
	return [...]string{"honoured", "ignored", "for a later feature"}[s]
}

// Key is a row of the table of keys.
type Key struct {
	// Name is the key as it is written in zoo.cfg. A name that ends in "*"
	// stands for every key that begins with what is before the "*".
	Name string
	// Aliases are other names that are accepted. The prefix "zookeeper." is
	// accepted before any name.
	Aliases []string
	// Default is the value of a key that is not given, "" if there is none.
	Default string
	// Status tells what zkd does with the key.
	Status Status
	// Doc is what the key means, or why it has no effect.
	Doc string

	value  value // of honoured keys, and of others whose value is checked
	secret bool  // the value must not be shown
}

// Unit returns the unit of the value, "" if it has none.
func (k Key) Unit() string { return k.value.unit }

// Allowed describes the good values, "" if the value is not looked at.
func (k Key) Allowed() string { return k.value.allowed }

// Keys returns the table of keys, in the order of the documentation.
func Keys() []Key { return keyTable(new(Config)) }

// keyTable returns the table of keys, bound to the fields of c.
func keyTable(c *Config) []Key {
	return slices.Concat(
		fileKeys(c), clientKeys(c), requestKeys(c), treeKeys(c), securityKeys(c), operatingKeys(c), ensembleKeys(c),
		quorumTLSKeys(c),
		laterKeys(), ignoredKeys(),
	)
}

// directory finds keys by the names that users write.
type directory struct {
	keys   []Key
	byName map[string]int
}

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

// find returns the key that name means.
func (d directory) find(name string) (Key, bool) {
	short := strings.TrimPrefix(name, "zookeeper.")
	if i, ok := d.byName[short]; ok {
		return d.keys[i], true
	}
	for _, k := range d.keys {
		if prefix, isPattern := strings.CutSuffix(k.Name, "*"); isPattern && strings.HasPrefix(short, prefix) {
			return k, true
		}
	}
	return Key{}, false
}

// nearest returns the known name that name is most likely a misspelling of, ""
// if none is near.
func (d directory) nearest(name string) string {
	short := strings.ToLower(strings.TrimPrefix(name, "zookeeper."))
	if len(short) > 100 {
		return "" // longer than any key; not worth the time
	}
	best, bestDistance := "", 1+max(1, len(short)/4)
	for _, k := range d.keys {
		for _, known := range append([]string{k.Name}, k.Aliases...) {
			dist := editDistance(short, strings.ToLower(known))
			if dist < bestDistance && !strings.HasSuffix(known, "*") {
				best, bestDistance = known, dist
			}
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements of bytes that
// turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
