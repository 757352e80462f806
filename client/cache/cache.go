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
)

// Whole, NodeOnly and ChildrenOnly are values of Options.Depth.
const (
	Whole        = 0  // the node and all below it
	NodeOnly     = -1 // the node
	ChildrenOnly = 1  // the node and its children
)

// DefaultWindow is how many reads are under way at once unless Options.Window
// says otherwise.
const DefaultWindow = 512

// Options are what a cache can be told. The zero value caches all of a subtree.
type Options struct {
	// Depth is how many levels below the node are cached: Whole (0), NodeOnly,
	// ChildrenOnly (1), or any number.
	Depth int

	// NoData keeps Stats only. Node.Data is nil then.
	NoData bool

	// Filter, if not nil, says of each path whether it is cached. What is below
	// a path that isn't is not cached either. It is not asked about the node that
	// the cache is of. It must not block, and always give the same answer.
	Filter func(path string) bool

	// MaxBytes is how much memory the nodes may take, as Cache.Bytes counts it.
	// The cache closes with ErrTooLarge when it would be more. 0 is no limit.
	MaxBytes int64

	// Window is how many reads are under way at once, at most. 0 is DefaultWindow.
	// Other operations of the client queue behind them.
	Window int

	// OneShot uses one-shot watches, as is done with servers that have no
	// persistent ones, on any server.
	OneShot bool
}

// Node is a node of the cache.
type Node struct {
	Path string
	Data []byte // shared with the cache: not to be changed. Nil if it is null
	Stat client.Stat
}

// ErrClosed is why a cache ended that was closed, and ErrTooLarge that of one
// that had more than Options.MaxBytes to keep.
var (
	ErrClosed   = errors.New("cache is closed")
	ErrTooLarge = errors.New("subtree is larger than Options.MaxBytes")
)

// Cache holds a subtree in memory. All methods may be called from any goroutine.
type Cache struct {
	client *client.Client
	opts   Options

	cancel   context.CancelFunc
	syncs    chan chan<- struct{} // requests of Sync to the loop
	ready    chan struct{}        // closed when the subtree was read for the first time
	finished chan struct{}        // closed when the loop has ended; err is set then
	wg       sync.WaitGroup       // the loop, and the goroutines of listeners

	mu      sync.RWMutex // guards what follows; the loop alone changes it
	tree    tree
	isReady bool
	stale   time.Time // since when the connection is lost; zero if it isn't
	version client.Zxid
	err     error
	closed  bool // Close was called
	subs    map[*subscription]struct{}
}

// Open begins to cache the node at path and what is below it, and returns at
// once: WaitReady waits for it. The node need not exist. ctx is for Open alone.
// An error means that an argument is wrong.
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
		tree: tree{path: path}, stale: time.Now(), subs: map[*subscription]struct{}{},
	}
	l := newLoop(k, run)
	k.wg.Go(l.run)
	return k, nil
}

// Close ends the cache. What it holds can still be read, and is not kept up to
// date any more. Close waits until the servers are told to forget the watches, or
// have not answered for a second; a one-shot watch that a read was just setting
// stays until it fires, which nobody hears. Close is idempotent.
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

// Err returns why the cache has ended: ErrClosed, ErrTooLarge, or what ended the
// session. It is nil as long as the cache goes on.
func (k *Cache) Err() error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.err
}

// Path returns the path that the cache was opened with.
func (k *Cache) Path() string { return k.tree.path }

// Ready returns a channel that is closed once all has been read that there was.
// It stays open if the cache ends before.
func (k *Cache) Ready() <-chan struct{} { return k.ready }

// WaitReady waits until all has been read that there was. The error is ctx's, or
// Err if the cache ends before.
func (k *Cache) WaitReady(ctx context.Context) error {
	select {
	case <-k.ready:
		return nil
	case <-k.finished:
		return k.Err()
	case <-ctx.Done():
		return fmt.Errorf("wait for the cache of %s: %w", k.tree.path, context.Cause(ctx))
	}
}

// Stale reports whether the cache can't be kept up to date at the moment, and
// since when: the connection is lost, or is back and not all has been read yet
// that may have changed meanwhile.
func (k *Cache) Stale() (since time.Time, stale bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.stale, !k.stale.IsZero()
}

// Version returns a zxid up to which the cache is known to have all changes. It
// moves when the cache has caught up with what the client has seen.
func (k *Cache) Version() client.Zxid {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.version
}

// Get returns a node, and whether the cache has it.
func (k *Cache) Get(path string) (Node, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	n := k.tree.find(path)
	if n == nil {
		return Node{}, false
	}
	return n.at(path), true
}

// Children returns the names of a node's children that are cached, sorted.
func (k *Cache) Children(path string) []string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	n := k.tree.find(path)
	if n == nil || len(n.kids) == 0 {
		return nil
	}
	names := make([]string, len(n.kids))
	for i, kid := range n.kids {
		names[i] = kid.name
	}
	return names
}

// Nodes returns the nodes at path and below, parents first, children sorted by
// name, as they are at one moment. It copies them (not their data) before the
// first is handed out: the loop may take its time, and may call the cache.
func (k *Cache) Nodes(path string) iter.Seq[Node] {
	return func(yield func(Node) bool) {
		k.mu.RLock()
		nodes := k.tree.list(path)
		k.mu.RUnlock()
		for _, n := range nodes {
			if !yield(n) {
				return
			}
		}
	}
}

// Len returns the number of nodes in the cache.
func (k *Cache) Len() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.tree.len
}

// Bytes returns about how much memory the nodes take: names, data, and 168 bytes
// each.
func (k *Cache) Bytes() int64 {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.tree.bytes
}

// Sync waits until the cache has all that was committed before the call. It
// costs a round trip to the leader, and no more if nothing has changed. While
// the connection is lost it waits for another one, as long as ctx lets it. The
// error is ctx's, Err, or that of Client.Sync.
func (k *Cache) Sync(ctx context.Context) error {
	err := k.client.Sync(ctx, k.tree.path)
	for err != nil && passing(err) {
		if err = k.client.WaitConnected(ctx); err != nil {
			break
		}
		err = k.client.Sync(ctx, k.tree.path)
	}
	if err != nil {
		if over := k.Err(); over != nil {
			return over
		}
		return fmt.Errorf("sync the cache of %s: %w", k.tree.path, err)
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
			return fmt.Errorf("sync the cache of %s: %w", k.tree.path, context.Cause(ctx))
		}
	}
}

// passing reports whether an operation that failed may succeed on the next
// connection.
func passing(err error) bool {
	return errors.Is(err, client.ErrConnectionLoss) || errors.Is(err, client.ErrSessionExpired)
}
