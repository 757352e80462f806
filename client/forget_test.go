package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

// A watch that is closed while another one is being set on the same path must not
// take that one along: whether the server can forget the path is decided in the
// order of the requests.
func TestCloseTakesNoOtherWatchAlong(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	c, other := s.Client(t), s.Client(t)
	ctx := t.Context()
	if _, err := c.Create(ctx, "/a", nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		first, err := c.GetW(ctx, "/a")
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- first.Watch.Close(ctx) }()
		second, err := c.GetW(ctx, "/a")
		if err != nil {
			t.Fatal(err)
		}
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		if _, err := other.Set(ctx, "/a", nil, client.AnyVersion); err != nil {
			t.Fatal(err)
		}
		wait, cancel := context.WithTimeout(ctx, time.Minute)
		if _, err := second.Watch.Next(wait); err != nil {
			t.Fatalf("the watch set meanwhile: %v", err)
		}
		cancel()
	}
}

// A watch whose caller left before the reply is removed at the server: nobody would ever
// hear of it.
func TestWatchThatWasLeftIsRemoved(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(ctx context.Context, c *client.Client) error{
		"persistent": func(ctx context.Context, c *client.Client) error {
			_, err := c.AddWatch(ctx, "/a", client.WatchPersistent)
			return err
		},
		"data": func(ctx context.Context, c *client.Client) error {
			_, err := c.GetW(ctx, "/zookeeper")
			return err
		},
		"children": func(ctx context.Context, c *client.Client) error {
			_, err := c.ChildrenW(ctx, "/zookeeper")
			return err
		},
		"nothing there": func(ctx context.Context, c *client.Client) error {
			_, err := c.ExistsW(ctx, "/a")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := zktest.Start(t)
			c := s.Client(t)
			s.Stall()
			inner, cancel := context.WithCancel(t.Context())
			if err := set(leaveOnceIssued{inner, cancel}, c); err == nil {
				t.Fatal("the watch was set while the server was cut off")
			}
			s.Resume()
			if err := s.AwaitRequests(t.Context(), jute.OpRemoveWatches, 1); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// What is called with a context that has ended is not sent.
func TestEndedContext(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	c := s.Client(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Create(ctx, "/a", nil, client.CreateOptions{})
	if !errors.Is(err, context.Canceled) || client.IsAmbiguous(err) {
		t.Errorf("create = %v, want one that was not sent", err)
	}
	if n := s.Requests().Of(jute.OpCreate); n != 0 {
		t.Errorf("%d creates were sent", n)
	}
}

// leaveOnceIssued is a context that ends as soon as a call waits for its reply.
type leaveOnceIssued struct {
	context.Context
	cancel func()
}

func (c leaveOnceIssued) Done() <-chan struct{} {
	c.cancel()
	return c.Context.Done()
}
