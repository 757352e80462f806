package status

import (
	"context"

	"github.com/zkd-project/zkd/recipes/group"
	"github.com/zkd-project/zkd/recipes/keepalive"
)

// Reporter is a worker's end.
type Reporter struct{ member *group.Membership }

// ID returns the worker's ID.
func (r *Reporter) ID() string { return r.member.ID() }

// State returns whether the worker is there, as others see it: after the end of a
// session it takes a moment to come back.
func (r *Reporter) State() keepalive.State { return r.member.State() }

// Post sets the status, and doesn't wait until others can see it. They will, unless a
// newer one comes first. After Close the error is recipes.ErrClosed; it is Err if the
// worker has ended.
func (r *Reporter) Post(status string) error { return r.member.Post([]byte(status)) }

// Set is Post that waits until others can see the status, or a newer one. If ctx ends
// before, they will see it nevertheless.
func (r *Reporter) Set(ctx context.Context, status string) error {
	return r.member.SetData(ctx, []byte(status))
}

// Done returns a channel that is closed when the worker has ended: by Close, or
// because of Err.
func (r *Reporter) Done() <-chan struct{} { return r.member.Done() }

// Err returns why the worker has ended: see keepalive.Node.Err.
func (r *Reporter) Err() error { return r.member.Err() }

// Close ends the worker. When it returns nil others don't see it any more. If ctx ends
// before, that goes on in the background. A second Close is recipes.ErrNotHeld.
func (r *Reporter) Close(ctx context.Context) error { return r.member.Leave(ctx) }
