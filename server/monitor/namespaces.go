package monitor

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Namespaces counts the bytes of operations by namespace, which is the first name of a path,
// such as app of /app/config. There are at most MaxNamespaces; those that come after these,
// and those with a name longer than MaxNamespaceName, are counted under the name
// OtherNamespaces. The zero value is ready to use.
type Namespaces struct {
	mu     sync.RWMutex
	byName map[string]*namespace
}

const (
	MaxNamespaces    = 1000
	MaxNamespaceName = 256 // bytes
	OtherNamespaces  = "(others)"
)

type namespace struct {
	count, sum, most atomic.Int64
	least            atomic.Int64 // plus one; 0 means none yet
}

// NamespaceCount collects what one goroutine counts, until Flush: most clients stay in one
// namespace.
type NamespaceCount struct {
	root                    string // of the namespace, such as /app; empty before the first
	into                    *namespace
	count, sum, least, most int64
}

// Add counts an operation on a path that read or wrote a number of bytes. The root belongs to no namespace.
func (c *NamespaceCount) Add(all *Namespaces, path string, bytes int) {
	if !c.in(path) {
		name := strings.TrimPrefix(path, "/")
		if end := strings.IndexByte(name, '/'); end >= 0 {
			name = name[:end]
		}
		if name == "" {
			return
		}
		c.Flush()
		if len(name) > MaxNamespaceName {
			c.root, c.into = "", all.of(OtherNamespaces)
		} else {
			c.root, c.into = "/"+name, all.of(name)
		}
	}
	n := int64(bytes)
	if c.count == 0 || n < c.least {
		c.least = n
	}
	c.count, c.sum, c.most = c.count+1, c.sum+n, max(c.most, n)
}

// in reports whether a path is in the namespace of the one before.
func (c *NamespaceCount) in(path string) bool {
	n := len(c.root)
	return n > 0 && strings.HasPrefix(path, c.root) && (len(path) == n || path[n] == '/')
}

// Flush adds to Namespaces what was counted since the last call.
func (c *NamespaceCount) Flush() {
	if c.count == 0 {
		return
	}
	into := c.into
	into.count.Add(c.count)
	into.sum.Add(c.sum)
	for old := into.most.Load(); c.most > old && !into.most.CompareAndSwap(old, c.most); {
		old = into.most.Load()
	}
	for old := into.least.Load(); (old == 0 || c.least+1 < old) && !into.least.CompareAndSwap(old, c.least+1); {
		old = into.least.Load()
	}
	c.count, c.sum, c.least, c.most = 0, 0, 0, 0
}

// CountOne counts an operation without bytes. Many of them are for a NamespaceCount.
func (n *Namespaces) CountOne(path string) {
	var c NamespaceCount
	c.Add(n, path, 0)
	c.Flush()
}

// of returns the namespace to count for.
func (n *Namespaces) of(name string) *namespace {
	n.mu.RLock()
	into := n.byName[name]
	n.mu.RUnlock()
	if into != nil {
		return into
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byName[name] == nil && len(n.byName) >= MaxNamespaces {
		name = OtherNamespaces
	}
	if n.byName == nil {
		n.byName = make(map[string]*namespace)
	}
	if n.byName[name] == nil {
		n.byName[strings.Clone(name)] = &namespace{} // the name may share a connection's read buffer
	}
	return n.byName[name]
}

// NamespaceBytes are the operations counted for a namespace.
type NamespaceBytes struct {
	Name              string
	Count, Sum        int64
	Smallest, Largest int64
}

// All returns the namespaces that have operations, by name.
func (n *Namespaces) All() (list []NamespaceBytes) {
	n.mu.RLock()
	for name, x := range n.byName {
		if count := x.count.Load(); count > 0 {
			list = append(list, NamespaceBytes{name, count, x.sum.Load(), max(x.least.Load()-1, 0), x.most.Load()})
		}
	}
	n.mu.RUnlock()
	slices.SortFunc(list, func(a, b NamespaceBytes) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Reset forgets the operations (the four-letter word srst).
func (n *Namespaces) Reset() {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, x := range n.byName {
		x.count.Store(0)
		x.sum.Store(0)
		x.least.Store(0)
		x.most.Store(0)
	}
}
