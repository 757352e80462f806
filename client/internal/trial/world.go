package trial

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/client/zktest"
)

// superDigest is the configuration line for the super user super:secret.
const superDigest = "DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4="

// World is a set of servers to test against, and a node for the test's own nodes.
type World struct {
	*zktest.Proxy
	Root string
}

var worlds atomic.Int64

// NewWorld starts n servers, with the options, or uses those of ZKD_TEST_SERVERS.
func NewWorld(t *testing.T, n int, opts ...zktest.Option) *World {
	t.Helper()
	w := &World{Proxy: zktest.Target(t, n, append(opts, zktest.Config(superDigest))...),
		Root: fmt.Sprintf("/suite-%d-%d", time.Now().UnixNano(), worlds.Add(1))}
	admin := w.Proxy.Client(t, Super)
	if _, err := admin.Create(Deadline(t), w.Root, nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if zktest.External() {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if _, err := tree.Delete(ctx, admin, w.Root, tree.DeleteOptions{}); err != nil {
				t.Errorf("clean up: %v", err)
			}
		})
	}
	return w
}

// Super is an option that authenticates a client as the super user.
func Super(o *client.Options) {
	o.Auth = append(o.Auth, client.Auth{Scheme: "digest", Data: []byte("super:secret")})
}

// Client returns a client whose root is the world's node.
func (w *World) Client(t *testing.T, opts ...func(*client.Options)) *client.Client {
	t.Helper()
	return w.Proxy.Client(t, opts...).Namespace(w.Root)
}

// Only returns a client that knows only the i-th server.
func (w *World) Only(t *testing.T, i int, opts ...func(*client.Options)) *client.Client {
	t.Helper()
	return w.Proxy.At(i).Client(t, opts...).Namespace(w.Root)
}

// Deadline returns a context that ends a test that hangs.
func Deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
