package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// ErrNoInstance is that a service has no instance that could be picked.
var ErrNoInstance = errors.New("no instance")

// ProviderOptions are what a Provider can be told. The zero value is good for most.
type ProviderOptions struct {
	// Policy decides which instance is picked. Nil is RoundRobin.
	Policy Policy
	// Filter, if not nil, says which instances may be picked. It is called with a lock
	// held, and must not call the Provider.
	Filter func(Instance) bool
	// Threshold is how often in a row an instance has to fail to be down; 0 is 2.
	Threshold int
	// Pause is how long after its last failure an instance is down, and failures are
	// remembered; 0 is 30 s.
	Pause time.Duration
}

// Provider has the instances of a service at hand.
type Provider struct {
	dir    string
	filter func(Instance) bool
	cache  *cache.Cache
	ready  chan struct{} // closed when all has been read, or it has ended before

	mu     sync.Mutex // guards what follows, and policy and down
	err    error      // why it has ended
	policy Policy
	down   down
	byName map[string]Instance // by the name of the node
	sorted []Instance          // nil if it is out of date
	// changed is closed and replaced when an event has come, or the Provider has ended.
	changed chan struct{}
}

// Open begins to follow the instances of a service, which need not have any yet, and
// returns at once. It ends with Close; ctx is for Open alone.
func (d *Discovery) Open(ctx context.Context, name string, o ProviderOptions) (*Provider, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("open provider: %w", err)
	}
	if o.Threshold < 0 || o.Pause < 0 {
		return nil, fmt.Errorf("open provider of %s: ProviderOptions.Threshold and Pause must not be negative", name)
	}
	if o.Policy == nil {
		o.Policy = RoundRobin()
	}
	if o.Threshold == 0 {
		o.Threshold = 2
	}
	if o.Pause == 0 {
		o.Pause = 30 * time.Second
	}
	k, err := cache.Open(ctx, d.c, d.service(name), cache.Options{Depth: cache.ChildrenOnly})
	if err != nil {
		return nil, err
	}
	p := &Provider{
		dir: d.service(name), filter: o.Filter, cache: k, ready: make(chan struct{}), policy: o.Policy,
		down:   down{threshold: o.Threshold, pause: o.Pause, failures: map[string]failure{}},
		byName: map[string]Instance{}, changed: make(chan struct{}),
	}
	k.OnEvent(p.take)
	return p, nil
}

// take takes an event of the cache. It is called by one goroutine.
func (p *Provider) take(e cache.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.tellLocked()
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
		delete(p.byName, name) // what it is now can't be picked
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

// Pick returns an instance, as the policy says: none that is Disabled, or that the
// filter doesn't want, and none that is down unless all are. It waits until the
// instances have been read for the first time, and for nothing else. The error wraps
// ErrNoInstance if there is none, recipes.ErrClosed after Close, and recipes.ErrLost if
// the session has ended and is not renewed.
func (p *Provider) Pick(ctx context.Context) (Instance, error) {
	if err := p.wait(ctx); err != nil {
		return Instance{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return Instance{}, p.err
	}
	all := slices.DeleteFunc(slices.Clone(p.sortedLocked()), func(i Instance) bool {
		return i.Disabled || p.filter != nil && !p.filter(i)
	})
	now := time.Now()
	up := slices.DeleteFunc(slices.Clone(all), func(i Instance) bool { return p.down.is(i.ID, now) })
	if len(up) == 0 {
		up = all // a guess is better than nothing
	}
	if len(up) == 0 {
		return Instance{}, fmt.Errorf("pick of %s: %w", p.dir, ErrNoInstance)
	}
	return up[p.policy.Pick(up)], nil
}

// Failed says that an instance which was picked did not serve. If that happens to it
// ProviderOptions.Threshold times in a row, it is down for ProviderOptions.Pause.
func (p *Provider) Failed(i Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.sortedLocked(), func(o Instance) bool { return o.ID == i.ID }) {
		p.down.failed(i.ID, time.Now())
	}
}

// Served says that an instance which was picked did serve: its failures are forgotten.
func (p *Provider) Served(i Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down.forget(i.ID)
}

// Instances returns all instances, sorted by ID, also those that Pick doesn't. It waits
// as Pick does, with the same errors.
func (p *Provider) Instances(ctx context.Context) ([]Instance, error) {
	if err := p.wait(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sortedLocked()), p.err
}

// Follow returns the instances, and again what they are after each change, until the
// loop or ctx ends. Changes that come faster than the loop takes them are left out but
// for the last. An error is the last: ctx's, or as that of Pick.
func (p *Provider) Follow(ctx context.Context) iter.Seq2[[]Instance, error] {
	return func(yield func([]Instance, error) bool) {
		var last []Instance
		for first := true; ; {
			p.mu.Lock()
			changed := p.changed
			p.mu.Unlock()
			all, err := p.Instances(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if first || !reflect.DeepEqual(all, last) {
				first, last = false, all
				if !yield(slices.Clone(all), nil) {
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}

// Stale reports whether the instances may be out of date because the connection is
// lost, and since when.
func (p *Provider) Stale() (since time.Time, stale bool) { return p.cache.Stale() }

// Close ends the Provider. It is idempotent; the error is nil.
func (p *Provider) Close(context.Context) error {
	p.mu.Lock()
	p.err = fmt.Errorf("provider of %s: %w", p.dir, recipes.ErrClosed)
	p.endLocked(p.err)
	p.tellLocked()
	p.mu.Unlock()
	p.cache.Close()
	return nil
}

func (p *Provider) tellLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
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
		p.sorted = make([]Instance, 0, len(p.byName))
		for _, i := range p.byName {
			p.sorted = append(p.sorted, i)
		}
		slices.SortFunc(p.sorted, func(a, b Instance) int { return strings.Compare(a.ID, b.ID) })
	}
	return p.sorted
}
