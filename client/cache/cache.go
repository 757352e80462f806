package cache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/subtrees"
)

// Whole, NodeOnly and ChildrenOnly are values of Options.Depth.
const (
	Whole        = 0  // the node and all below it
	NodeOnly     = -1 // the node
	ChildrenOnly = 1  // the node and its children
)

// DefaultWindow is the number of concurrent reads if Options.Window is 0.
const DefaultWindow = 512

// Options configure a cache. The zero value caches a whole subtree.
type Options struct {
	// Depth is how many levels below the node are cached: Whole (0), NodeOnly,
	// ChildrenOnly (1), or any number.
	Depth int

	// NoData caches only Stats. Node.Data is then nil.
	NoData bool

	// Filter, if not nil, reports whether a path is cached. Nodes below a path that is not
	// cached are not cached either. Filter is not called for the cache's root. It must not
	// block, and must always return the same result.
	Filter func(path string) bool

	// MaxBytes is the most memory that the nodes may take, as Cache.Bytes counts it. The
	// cache closes with ErrTooLarge when it would exceed that. 0 means no limit.
	MaxBytes int64

	// Window is the largest number of concurrent reads. 0 means DefaultWindow. Other
	// operations of the client queue after them.
	Window int

	// OneShot uses one-shot watches on any server. Otherwise only servers without persistent
	// watches get them.
	OneShot bool

	// Observer, if not nil, learns of each change, and the cache is kept by a feed or not at all: while
	// the server offers none, or has no room for one, the cache is stale. With it, Depth and Filter have no effect.
	Observer Observer

	// Watches has a cache with an Observer be kept by watches while there is no feed. The Observer learns nothing then.
	Watches bool

	// Room, if not nil, is what this cache has a part of, as MaxBytes. A cache for which there is not enough forgets its nodes.
	Room *Room

	noFeed bool // watches on servers that offer feeds, too
}

// Node is a node in the cache.
type Node struct {
	Path string
	Data []byte // shared with the cache: must not be changed. Nil if it is null
	Stat client.Stat
}

func nodeAt(n *subtrees.Node, path string) Node { return Node{Path: path, Data: n.Data, Stat: n.Stat} }

// ErrClosed means that the cache was closed, and ErrTooLarge that its nodes exceeded
// Options.MaxBytes.
var (
	ErrClosed   = errors.New("cache is closed")
	ErrTooLarge = errors.New("subtree is larger than Options.MaxBytes")
)

// Cache holds a subtree in memory. Its methods may be called from any goroutine.
type Cache struct {
	client *client.Client
	opts   Options

	cancel   context.CancelFunc
	syncs    chan chan<- struct{} // requests of Sync to the loop
	ready    chan struct{}        // closed when the subtree was read for the first time
	finished chan struct{}        // closed when the loop has ended; err is set then
	wg       sync.WaitGroup       // the loop, and the goroutines of listeners

	mu      sync.RWMutex  // guards what follows, which only the loop changes
	tree    subtrees.Copy // what is known of ACLs counts while fed
	isReady bool
	// unreadable has the nodes that subscribers were told to be Unreadable, and why.
	unreadable map[string]error
	stale      time.Time // when the connection was lost; zero if there is one
	fed        bool      // a feed has kept the cache since all was read
	roomed     int64     // bytes that count in Options.Room
	err        error
	closed     bool // Close was called
	subs       map[*subscription]struct{}
}

// Open begins to cache the node at path and the nodes below it, and returns at once;
// WaitReady waits for the contents. The node need not exist. ctx applies to Open only. An
// error means that an argument is invalid.
func Open(ctx context.Context, c *client.Client, path string, o Options) (*Cache, error) {
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case !strings.HasPrefix(path, "/") || len(path) > 1 && strings.HasSuffix(path, "/"):
		return nil, fmt.Errorf("open cache of %q: a path begins with / and does not end in one", path)
	case o.Depth < NodeOnly:
		return nil, fmt.Errorf("open cache of %s: Options.Depth is %d: it is NodeOnly, Whole, or a number of levels", path, o.Depth)
	case o.Window < 0 || o.MaxBytes < 0:
		return nil, fmt.Errorf("open cache of %s: Options.Window and MaxBytes must not be negative", path)
	}
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	run, cancel := context.WithCancel(context.Background())
	k := &Cache{
		client: c, opts: o, cancel: cancel,
		syncs: make(chan chan<- struct{}), ready: make(chan struct{}), finished: make(chan struct{}),
		tree: subtrees.Copy{Nodes: subtrees.Nodes{Path: path}}, stale: time.Now(), subs: map[*subscription]struct{}{}, unreadable: map[string]error{},
	}
	l := newLoop(k, run)
	k.wg.Go(l.run)
	return k, nil
}

// Close ends the cache. Its contents can still be read, but are no longer updated. Close
// waits until the servers have removed the watches, for at most a second. A one-shot watch
// that a read was just setting stays until it fires, without effect. Close is idempotent.
func (k *Cache) Close() {
	k.cancel()
	k.mu.Lock()
	k.closed = true
	for s := range k.subs {
		s.drop()
	}
	k.mu.Unlock()
	k.wg.Wait()
}

// Err returns the reason why the cache has ended: ErrClosed, ErrTooLarge, or the error that
// ended the session. It returns nil while the cache works.
func (k *Cache) Err() error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.err
}

// Path returns the path that the cache was opened with.
func (k *Cache) Path() string { return k.tree.Path }

// Ready returns a channel that is closed when everything has been read once. It stays open if
// the cache ends before.
func (k *Cache) Ready() <-chan struct{} { return k.ready }

// WaitReady waits until everything has been read once. It returns ctx's error, or Err if the
// cache ends before.
func (k *Cache) WaitReady(ctx context.Context) error {
	select {
	case <-k.ready:
		return nil
	case <-k.finished:
		return k.Err()
	case <-ctx.Done():
		return fmt.Errorf("wait for the cache of %s: %w", k.tree.Path, context.Cause(ctx))
	}
}

// Stale reports whether the cache can't be kept up to date at the moment, and since when: the
// connection is lost, or has returned and not all nodes that may have changed meanwhile have
// been read.
func (k *Cache) Stale() (since time.Time, stale bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.stale, !k.stale.IsZero()
}

// Version returns a zxid up to which the cache has all changes. It moves when the cache has
// caught up with what the client has seen.
func (k *Cache) Version() client.Zxid {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.tree.Version
}

// Get returns a node, and whether it is in the cache.
func (k *Cache) Get(path string) (Node, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	n := k.tree.Find(path)
	if n == nil {
		return Node{}, false
	}
	return nodeAt(n, path), true
}

// Children returns the names of a node's children that are cached, sorted.
func (k *Cache) Children(path string) []string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	n := k.tree.Find(path)
	if n == nil || len(n.Kids) == 0 {
		return nil
	}
	names := make([]string, len(n.Kids))
	for i, kid := range n.Kids {
		names[i] = kid.Name
	}
	return names
}

// Nodes returns the nodes at path and below, parents first, children sorted by name, as of
// one moment. It copies the nodes, but not their data, before it yields the first, so the
// loop may take its time and may call the cache.
func (k *Cache) Nodes(path string) iter.Seq[Node] {
	return func(yield func(Node) bool) {
		k.mu.RLock()
		nodes := k.listLocked(path)
		k.mu.RUnlock()
		for _, n := range nodes {
			if !yield(n) {
				return
			}
		}
	}
}

// listLocked returns the nodes at a path and below, parents first.
func (k *Cache) listLocked(path string) (nodes []Node) {
	if n := k.tree.Find(path); n != nil {
		if n == k.tree.Root {
			nodes = make([]Node, 0, k.tree.Len)
		}
		n.Walk(path, func(n *subtrees.Node, path string) { nodes = append(nodes, nodeAt(n, path)) })
	}
	return nodes
}

// Len returns the number of nodes in the cache.
func (k *Cache) Len() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.tree.Len
}

// Bytes returns approximately how much memory the nodes take: names, data, and 168 bytes
// each.
func (k *Cache) Bytes() int64 {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.tree.Bytes
}

// Sync waits until the cache has everything that was committed before the call. If nothing
// has changed, it costs one round trip to the leader. While the connection is lost, it waits
// for another one until ctx ends. It returns ctx's error, Err, or the error of Client.Sync.
func (k *Cache) Sync(ctx context.Context) error {
	err := k.client.Sync(ctx, k.tree.Path)
	for err != nil && passing(err) {
		if err = k.client.WaitConnected(ctx); err != nil {
			break
		}
		err = k.client.Sync(ctx, k.tree.Path)
	}
	if err != nil {
		if over := k.Err(); over != nil {
			return over
		}
		return fmt.Errorf("sync the cache of %s: %w", k.tree.Path, err)
	}
	done := make(chan struct{}, 1)
	syncs := k.syncs
	for {
		select {
		case syncs <- done:
			syncs = nil
		case <-done:
			return nil
		case <-k.finished:
			return k.Err()
		case <-ctx.Done():
			return fmt.Errorf("sync the cache of %s: %w", k.tree.Path, context.Cause(ctx))
		}
	}
}

// passing reports whether an operation that failed may succeed on the next
// connection.
func passing(err error) bool {
	return errors.Is(err, client.ErrConnectionLoss) || errors.Is(err, client.ErrSessionExpired)
}
