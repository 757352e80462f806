package crashfs

import (
	"maps"
	"slices"
)

// dir is a directory of files.
type dir struct {
	live    map[string]*inode
	durable map[string]*inode
	pending []change
}

// change is one change of a directory: the name from is removed, and to becomes node's name.
// Either may be empty.
type change struct {
	from, to string
	node     *inode
}

func newDir() *dir {
	return &dir{live: map[string]*inode{}, durable: map[string]*inode{}}
}

func (d *dir) change(c change) {
	c.apply(d.live)
	d.pending = append(d.pending, c)
}

func (c change) apply(names map[string]*inode) {
	if c.from != "" {
		delete(names, c.from)
	}
	if c.to != "" {
		names[c.to] = c.node
	}
}

// settle applies some of the pending changes to the names on the disk.
func (d *dir) settle(names map[string]*inode, choose chooser) {
	for _, c := range d.pending {
		if choose() {
			c.apply(names)
		}
	}
}

// sync makes durable what the chooser selects; the rest is lost for good.
func (d *dir) sync(choose chooser) {
	d.settle(d.durable, choose)
	clear(d.pending)
	d.pending = d.pending[:0]
}

// sortedKeys makes walks over maps repeatable.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
