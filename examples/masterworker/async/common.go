package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// passing reports whether err says that the connection broke: the operation may have
// been done or not, and there will be another connection, or the end of the session.
func passing(err error) bool { return client.IsAmbiguous(err) || client.IsRetryable(err) }

// ending is the first error that ends a role.
type ending chan error

func newEnding() ending { return make(ending, 1) }

// fail tells why it ends. It does not wait.
func (e ending) fail(err error) {
	select {
	case e <- err:
	default: // there was one before
	}
}

// failed reports whether there was an error that nobody has received yet.
func (e ending) failed() bool { return len(e) > 0 }

// session is told of changes of the session's state.
func (e ending) session(state client.State) {
	if state == client.StateExpired {
		e.fail(client.ErrSessionExpired)
	}
}

// bootstrap makes the nodes that all share, and then calls then.
func bootstrap(a client.Async, end ending, then func()) {
	left := len(layout.Parents())
	for _, path := range layout.Parents() {
		createParent(a, end, path, func() {
			if left--; left == 0 {
				then()
			}
		})
	}
}

func createParent(a client.Async, end ending, path string, then func()) {
	a.Create(path, nil, client.Persistent, nil, func(_ client.Created, err error) {
		switch {
		case err == nil, errors.Is(err, client.ErrNodeExists):
			then()
		case passing(err):
			createParent(a, end, path, then)
		default:
			end.fail(fmt.Errorf("make the parent nodes: %w", err))
		}
	})
}

// leave closes the session. All that was ephemeral is gone then: the others need not
// wait until it expires. It returns when the last callback has: what they use, such as
// the log, is the caller's again.
func leave(ctx context.Context, c *client.Client) {
	last := make(chan struct{})
	c.OnState(func(change client.StateChange) {
		if change.To == client.StateClosed {
			close(last)
		}
	})
	_ = c.Close(context.WithoutCancel(ctx)) // if it fails, the session ends by itself, later
	<-last
}
