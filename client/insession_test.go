package client_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
)

// What is for a session is not done in the one that follows it.
func TestInSession(t *testing.T) {
	ctx := deadline(t)
	p := zktest.NewProxy(t, zktest.Start(t).Addr())
	c := p.Client(t, func(o *client.Options) { o.RenewSession = true })
	id := c.Session().ID()
	bound := c.InSession(id)
	if !c.Options().RenewSession || bound.Options().RenewSession {
		t.Error("operations of a session are not those of the next one")
	}
	_, err := bound.Create(ctx, "/a", nil, client.CreateOptions{Mode: client.Ephemeral})
	must(t, err)

	p.ExpireSession(id)
	_, err = c.Create(ctx, "/a", []byte("another's"), client.CreateOptions{})
	for errors.Is(err, client.ErrSessionExpired) || errors.Is(err, client.ErrConnectionLoss) {
		_, err = c.Create(ctx, "/a", []byte("another's"), client.CreateOptions{})
	}
	must(t, err)
	mustBe(t, bound.Delete(ctx, "/a", 0), client.ErrSessionExpired)
	_, err = bound.Async().Set("/a", nil, 0).Wait(ctx)
	mustBe(t, err, client.ErrSessionExpired)
	_, err = bound.WithRetry(client.DefaultRetry()).Namespace("/").Get(ctx, "/a")
	mustBe(t, err, client.ErrSessionExpired)
	_, err = bound.InSession(0).Set(ctx, "/a", nil, 0)
	must(t, err)
}

// Background work of a session ends with it.
func TestInSessionBackground(t *testing.T) {
	ctx := deadline(t)
	gaveUp := make(chan struct{})
	p := zktest.NewProxy(t, zktest.Start(t).Addr())
	c := p.Client(t, func(o *client.Options) {
		o.RenewSession = true
		o.Logger = logFunc(func(msg string) {
			if msg == "guaranteed delete has failed" {
				close(gaveUp)
			}
		})
	})
	id := c.Session().ID()
	p.ExpireSession(id)
	for now := id; now == id; now = c.Session().ID() {
		_ = c.Sync(ctx, "/") // until it finds out
		must(t, ctx.Err())
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	mustBe(t, settle.Delete(ended, c.InSession(id), "/a", client.AnyVersion, settle.DeleteOptions{Insist: true}), context.Canceled)
	select {
	case <-gaveUp:
	case <-ctx.Done():
		t.Fatal("the delete goes on for ever")
	}
}

type logFunc func(msg string)

func (f logFunc) Log(_ context.Context, _ slog.Level, msg string, _ ...any) { f(msg) }
