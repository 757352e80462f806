package presence

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// ErrNoInstance means that a service has no instance that can be picked.
var ErrNoInstance = errors.New("no instance")

// ProviderOptions configure a Provider. The zero value is good for most.
type ProviderOptions struct {
	// Policy decides which instance is picked. Nil means RoundRobin.
	Policy Policy
	// Filter, if not nil, reports which instances may be picked. It is called with a lock
	// held, and must not call the Provider.
	Filter func(Instance) bool
	// Threshold is how often in a row an instance must fail to be down; 0 means 2.
	Threshold int
	// Pause is how long after its last failure an instance is down, and failures are
	// remembered; 0 means 30 s.
	Pause time.Duration
}

// Provider has the instances of a service in memory, and picks one.
type Provider struct {
	dir   string
	o     ProviderOptions
	cache *cache.Cache
	ready chan struct{} // closed when all instances have been read, or it has ended

	mu     monitor // guards what follows, and o.Policy
	err    error   // why it has ended
	down   down
	byName map[string]Instance // by the name of the node
	sorted []Instance          // nil if it is out of date
}

// down knows which instances have failed lately.
type down struct {
	threshold int
	pause     time.Duration
	failures  map[string]failure // by the instance's ID
}

type failure struct {
	count int
	until time.Time // when they are forgotten
}

// failed counts a failure of an instance.
func (d *down) failed(id string, now time.Time) {
	f := d.failures[id]
	if !now.Before(f.until) {
		f.count = 0
	}
	d.failures[id] = failure{f.count + 1, now.Add(d.pause)}
}

// is reports whether an instance is down.
func (d *down) is(id string, now time.Time) bool {
	f := d.failures[id]
	return f.count >= d.threshold && now.Before(f.until)
}

// forget forgets the failures of an instance.
func (d *down) forget(id string) { delete(d.failures, id) }

// Open begins to follow the instances of a service, which need not have any yet, and returns
// at once. The Provider ends with Close; ctx is for Open alone.
func (d *Directory) Open(ctx context.Context, name string, o ProviderOptions) (*Provider, error) {
	if err := checkName("service's name", name); err != nil {
		return nil, fmt.Errorf("open provider: %w", err)
	}
	if o.Threshold < 0 || o.Pause < 0 {
		return nil, fmt.Errorf("open provider of %s: ProviderOptions.Threshold and Pause must not be negative", name)
	}
	if o.Policy == nil {
		o.Policy = RoundRobin()
	}
	o.Threshold, o.Pause = cmp.Or(o.Threshold, 2), cmp.Or(o.Pause, 30*time.Second)
	k, err := cache.Open(ctx, d.c, d.service(name), cache.Options{Depth: cache.ChildrenOnly})
	if err != nil {
		return nil, err
	}
	p := &Provider{
		dir: d.service(name), o: o, cache: k, ready: make(chan struct{}),
		down:   down{threshold: o.Threshold, pause: o.Pause, failures: map[string]failure{}},
		byName: map[string]Instance{},
	}
	k.OnEvent(p.take)
	return p, nil
}

// take applies an event of the cache. One goroutine calls it.
func (p *Provider) take(e cache.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.mu.notifyLocked()
	name := line.Base(e.Node.Path)
	switch e.Type {
	case cache.Added, cache.Changed:
		if e.Node.Path != p.dir {
			p.putLocked(name, e.Node.Data)
		}
	case cache.Removed:
		p.down.forget(p.byName[name].ID)
		delete(p.byName, name)
		p.sorted = nil
	case cache.Ready:
		p.readyLocked()
	case cache.Unreadable:
		p.endLocked(e.Err)
	case cache.Closed:
		p.endLocked(fmt.Errorf("%w: provider of %s: %w", recipes.ErrLost, p.dir, e.Err))
	}
}

func (p *Provider) putLocked(name string, data []byte) {
	var i Instance
	if err := json.Unmarshal(data, &i); err != nil {
		delete(p.byName, name) // one broken instance must not take the service down
	} else {
		p.byName[name] = i
	}
	p.sorted = nil
}

func (p *Provider) endLocked(err error) {
	if p.err == nil {
		p.err = err
	}
	p.readyLocked()
}

func (p *Provider) readyLocked() {
	select {
	case <-p.ready:
	default:
		close(p.ready)
	}
}

// Pick returns an instance that the policy chooses. It never returns one that is Disabled or
// that the filter rejects, and one that is down only if all are. It waits only until the
// instances have been read for the first time. The error wraps ErrNoInstance if there is
// none, recipes.ErrClosed after Close, and recipes.ErrLost if the session has ended and is
// not renewed.
func (p *Provider) Pick(ctx context.Context) (Instance, error) {
	if err := p.wait(ctx); err != nil {
		return Instance{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return Instance{}, p.err
	}
	var all, up []Instance
	now := time.Now()
	for _, i := range p.sortedLocked() {
		if i.Disabled || p.o.Filter != nil && !p.o.Filter(i) {
			continue
		}
		all = append(all, i)
		if !p.down.is(i.ID, now) {
			up = append(up, i)
		}
	}
	if len(up) == 0 {
		up = all // one of them may serve again
	}
	if len(up) == 0 {
		return Instance{}, fmt.Errorf("pick of %s: %w", p.dir, ErrNoInstance)
	}
	return up[p.o.Policy.Pick(up)], nil
}

// Failed reports that an instance that was picked did not serve. After
// ProviderOptions.Threshold failures in a row it is down for ProviderOptions.Pause.
func (p *Provider) Failed(i Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.sortedLocked(), func(o Instance) bool { return o.ID == i.ID }) {
		p.down.failed(i.ID, time.Now())
	}
}

// Served reports that an instance that was picked did serve: its failures are forgotten.
func (p *Provider) Served(i Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down.forget(i.ID)
}

// Instances returns all instances, sorted by ID, including those that are not picked. It
// waits as Pick does, with the same errors.
func (p *Provider) Instances(ctx context.Context) ([]Instance, error) {
	all, _, err := p.look(ctx)
	return all, err
}

func (p *Provider) look(ctx context.Context) ([]Instance, <-chan struct{}, error) {
	if err := p.wait(ctx); err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sortedLocked()), p.mu.changedLocked(), p.err
}

// Follow returns the instances, and again after each change, until the loop or ctx ends.
// Changes that come faster than the loop takes them are left out, but for the last. An error
// is the last: that of ctx, or as that of Pick.
func (p *Provider) Follow(ctx context.Context) iter.Seq2[[]Instance, error] {
	return func(yield func([]Instance, error) bool) {
		for all, err := range follow(ctx, func() ([]Instance, <-chan struct{}, error) { return p.look(ctx) }) {
			if !yield(slices.Clone(all), err) { // the loop may change its list
				return
			}
		}
	}
}

// Stale reports whether the instances may be out of date because the connection is lost, and
// since when.
func (p *Provider) Stale() (since time.Time, stale bool) { return p.cache.Stale() }

// Close ends the Provider. It is idempotent; the error is nil.
func (p *Provider) Close(context.Context) error {
	p.mu.Lock()
	p.err = fmt.Errorf("provider of %s: %w", p.dir, recipes.ErrClosed)
	p.readyLocked()
	p.mu.notifyLocked()
	p.mu.Unlock()
	p.cache.Close()
	return nil
}

func (p *Provider) wait(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the instances of %s: %w", p.dir, context.Cause(ctx))
	}
}

// sortedLocked returns the instances sorted by ID.
func (p *Provider) sortedLocked() []Instance {
	if p.sorted == nil {
		p.sorted = slices.SortedFunc(maps.Values(p.byName), func(a, b Instance) int { return strings.Compare(a.ID, b.ID) })
	}
	return p.sorted
}
