package discovery

import (
	"context"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/keepalive"
)

// Registration is an instance that is registered.
type Registration struct {
	node *keepalive.Node

	mu       sync.Mutex
	instance Instance
	ended    bool // Unregister was called
}

// Instance returns what is registered.
func (r *Registration) Instance() Instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.instance
}

// Update changes what is registered, but for Name and ID, and waits until others can
// see it, or what is registered after it. An empty Type and a zero Registered stay as
// they are. If ctx ends before, others will see it nevertheless.
func (r *Registration) Update(ctx context.Context, i Instance) error {
	r.mu.Lock()
	was := r.instance
	if i.Type == "" {
		i.Type = was.Type
	}
	if i.Registered.IsZero() {
		i.Registered = was.Registered
	}
	data, err := encode(i)
	if err == nil && (i.Name != was.Name || i.ID != was.ID) {
		err = fmt.Errorf("instance %s of %s can't become %s of %s: register that", was.ID, was.Name, i.ID, i.Name)
	}
	if err == nil {
		err = r.node.Post(data)
	}
	if err == nil {
		r.instance = i
	}
	r.mu.Unlock()
	if err == nil {
		err = r.node.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	return nil
}

// State returns whether the instance is there, as others see it: after the end of a
// session it takes a moment to come back.
func (r *Registration) State() keepalive.State { return r.node.State() }

// Done returns a channel that is closed when the registration has ended: by Unregister,
// or because of Err.
func (r *Registration) Done() <-chan struct{} { return r.node.Done() }

// Err returns why the registration has ended: see keepalive.Node.Err.
func (r *Registration) Err() error { return r.node.Err() }

// Unregister ends it. When it returns nil, others don't find the instance any more. If
// ctx ends before, that goes on in the background. A second one is recipes.ErrNotHeld.
func (r *Registration) Unregister(ctx context.Context) error {
	r.mu.Lock()
	was := r.ended
	r.ended = true
	r.mu.Unlock()
	if was {
		return fmt.Errorf("unregister: %w", recipes.ErrNotHeld)
	}
	if err := r.node.Close(ctx); err != nil {
		return fmt.Errorf("unregister: %w", err)
	}
	return nil
}
