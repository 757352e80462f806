package crashfs

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// Crash returns the file system as it is after a power cut now. rng decides which unsynced
// changes survive; with a nil rng none do. The original is not affected. The copy has no
// hook, no capacity and no locks, and everything in it is durable.
func (f *FS) Crash(rng *rand.Rand) *FS {
	if rng == nil {
		return f.image(never)
	}
	return f.image(coin(rng))
}

// Kill returns the file system as another process finds it after this one died: everything
// written is visible, and what was not synced is still not durable.
func (f *FS) Kill() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := New(f.mu.rng.Uint64())
	nodes := map[*inode]*inode{}
	clone := func(n *inode) *inode {
		if n == nil {
			return nil
		}
		if nodes[n] == nil {
			nodes[n] = &inode{live: n.live.clone(), durable: n.durable.clone(),
				pending: slices.Clone(n.pending), blocks: slices.Clone(n.blocks)}
		}
		return nodes[n]
	}
	for name, d := range f.mu.dirs {
		e := newDir()
		for base, n := range d.live {
			e.live[base] = clone(n)
		}
		for base, n := range d.durable {
			e.durable[base] = clone(n)
		}
		for _, ch := range d.pending {
			ch.node = clone(ch.node)
			e.pending = append(e.pending, ch)
		}
		c.mu.dirs[name] = e
	}
	return c
}

func (f *FS) image(choose chooser) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := New(f.mu.rng.Uint64())
	nodes := map[*inode]*inode{}
	for _, name := range sortedKeys(f.mu.dirs) {
		d, e := f.mu.dirs[name], newDir()
		names := maps.Clone(d.durable)
		d.settle(names, choose)
		for _, base := range sortedKeys(names) {
			n := names[base]
			if nodes[n] == nil {
				m := &inode{durable: n.durable.clone()}
				n.settle(&m.durable, choose, &c.mu.heap)
				m.live = m.durable.clone()
				m.addBlocks(0, m.live.size)
				nodes[n] = m
			}
			e.live[base], e.durable[base] = nodes[n], nodes[n]
		}
		c.mu.dirs[name] = e
	}
	return c
}

// Corrupt changes bytes of a file, durably, without the file system's notice.
func (f *FS) Corrupt(name string, change func([]byte) []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, base, err := f.lookupLocked(OpWrite, name)
	if err != nil {
		return err
	}
	n := d.live[base]
	if n == nil {
		return fmt.Errorf("corrupt %s: %w", name, fs.ErrNotExist)
	}
	b := make([]byte, n.live.size)
	n.live.readAt(b, 0)
	b = change(b)
	m := &inode{}
	m.truncate(int64(len(b)), &f.mu.heap)
	m.write(b, 0, &f.mu.heap)
	n.live, n.durable, n.pending = m.live, m.live.clone(), nil
	return nil
}

// Files returns the names of all visible files, sorted.
func (f *FS) Files() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, dir := range sortedKeys(f.mu.dirs) {
		for _, base := range sortedKeys(f.mu.dirs[dir].live) {
			list = append(list, filepath.Join(dir, base))
		}
	}
	return list
}
