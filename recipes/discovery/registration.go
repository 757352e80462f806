package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/keepalive"
)

// Registration is an instance that is registered.
type Registration struct {
	node  *keepalive.Node
	ended atomic.Bool // Unregister was called
}

// Instance returns what is registered, or is about to be.
func (r *Registration) Instance() (i Instance) {
	_ = json.Unmarshal(r.node.Data(), &i) // we have encoded it
	return i
}

// Update changes what is registered, but for Name and ID, and waits until others can
// see it, or what is registered after it. An empty Type and a zero Registered stay as
// they are. If ctx ends before, others will see it nevertheless. What the servers refuse
// changes nothing.
func (r *Registration) Update(ctx context.Context, i Instance) error {
	was := r.Instance()
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
		err = r.node.SetData(ctx, data)
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
	if r.ended.Swap(true) {
		return fmt.Errorf("unregister: %w", recipes.ErrNotHeld)
	}
	if err := r.node.Close(ctx); err != nil {
		return fmt.Errorf("unregister: %w", err)
	}
	return nil
}
