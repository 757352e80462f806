package client_test

import (
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// What is for a session is not done in the one that follows it.
func TestInSession(t *testing.T) {
	ctx := deadline(t)
	p := zktest.NewProxy(t, zktest.Start(t).Addr())
	c := p.Client(t, func(o *client.Options) { o.RenewSession = true })
	id, _ := c.Session()
	bound := c.InSession(id)
	_, err := bound.Create(ctx, "/a", nil, client.Ephemeral, nil)
	must(t, err)

	p.ExpireSession(id)
	_, err = c.Create(ctx, "/a", []byte("another's"), client.Persistent, nil)
	for errors.Is(err, client.ErrSessionExpired) || errors.Is(err, client.ErrConnectionLoss) {
		_, err = c.Create(ctx, "/a", []byte("another's"), client.Persistent, nil)
	}
	must(t, err)
	mustBe(t, bound.Delete(ctx, "/a", 0), client.ErrSessionExpired)
	_, err = bound.Async().Set("/a", nil, 0).Wait(ctx)
	mustBe(t, err, client.ErrSessionExpired)
	_, _, err = bound.WithRetry(client.DefaultRetry()).Namespace("/").Get(ctx, "/a")
	mustBe(t, err, client.ErrSessionExpired)
	_, err = bound.InSession(0).Set(ctx, "/a", nil, 0)
	must(t, err)
}
