package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// The suite_*_test.go files hold what the client promises against real servers:
// zkd's in this process, or those that ZKD_TEST_SERVERS names, such as Apache's.
// The latter need extendedTypesEnabled, the super user super:secret, and a short
// znode.container.checkIntervalMs; test/compat starts them so.

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func makeNode(t testing.TB, c *client.Client, path, data string) {
	t.Helper()
	_, err := c.Create(deadline(t), path, []byte(data), client.CreateOptions{})
	ok(t, err)
}

// failsWith checks an error that is certain: the sentinel, and what its text
// names.
func failsWith(t testing.TB, err, want error, words ...string) {
	t.Helper()
	if !errors.Is(err, want) || client.IsAmbiguous(err) {
		t.Errorf("error %v (ambiguous: %v), want %v", err, client.IsAmbiguous(err), want)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

// ended waits for the state, which must come.
func ended(t testing.TB, states <-chan client.StateChange, want client.State) client.StateChange {
	t.Helper()
	for change := range states {
		if change.To == want {
			return change
		}
	}
	t.Fatalf("never %v", want)
	return client.StateChange{}
}

// api is the operations of a client in one of their two forms.
type api struct {
	*client.Client
	a     client.Async
	async bool
}

// inBothForms runs a test with operations that wait and with ones that don't, each in a world
// whose servers have the options.
func inBothForms(t *testing.T, test func(t *testing.T, w *world, c api), opts ...zktest.Option) {
	for _, async := range []bool{false, true} {
		t.Run(map[bool]string{false: "sync", true: "async"}[async], func(t *testing.T) {
			w := newWorld(t, 1, opts...)
			test(t, w, apiOf(t, w, async))
		})
	}
}

func apiOf(t *testing.T, w *world, async bool, opts ...func(*client.Options)) api {
	t.Helper()
	c := w.Client(t, opts...)
	return api{Client: c, a: c.Async(), async: async}
}

// unrooted is Client.Unrooted in the same form.
func (c api) unrooted() api {
	u := c.Client.Unrooted()
	return api{Client: u, a: u.Async(), async: c.async}
}

// onPath does an operation that has a path alone: wait is its form that waits, begin the one that doesn't.
func onPath[T any](ctx context.Context, c api, path string, wait func(context.Context, string) (T, error), begin func(string, ...func(T, error)) *client.Future[T]) (T, error) {
	if !c.async {
		return wait(ctx, path)
	}
	return begin(path).Wait(ctx)
}

func (c api) Create(ctx context.Context, path string, data []byte, o client.CreateOptions) (client.Created, error) {
	if !c.async {
		return c.Client.Create(ctx, path, data, o)
	}
	return c.a.Create(path, data, o).Wait(ctx)
}

func (c api) Delete(ctx context.Context, path string, version int32) error {
	if !c.async {
		return c.Client.Delete(ctx, path, version)
	}
	_, err := c.a.Delete(path, version).Wait(ctx)
	return err
}

func (c api) Exists(ctx context.Context, path string) (client.Presence, error) {
	return onPath(ctx, c, path, c.Client.Exists, c.a.Exists)
}

func (c api) ExistsW(ctx context.Context, path string) (client.Presence, error) {
	return onPath(ctx, c, path, c.Client.ExistsW, c.a.ExistsW)
}

func (c api) Get(ctx context.Context, path string) (client.Node, error) {
	return onPath(ctx, c, path, c.Client.Get, c.a.Get)
}

func (c api) GetW(ctx context.Context, path string) (client.Node, error) {
	return onPath(ctx, c, path, c.Client.GetW, c.a.GetW)
}

func (c api) Children(ctx context.Context, path string) (client.Listing, error) {
	return onPath(ctx, c, path, c.Client.Children, c.a.Children)
}

func (c api) ChildrenW(ctx context.Context, path string) (client.Listing, error) {
	return onPath(ctx, c, path, c.Client.ChildrenW, c.a.ChildrenW)
}

func (c api) GetACL(ctx context.Context, path string) (client.Access, error) {
	return onPath(ctx, c, path, c.Client.GetACL, c.a.GetACL)
}

func (c api) Set(ctx context.Context, path string, data []byte, version int32) (client.Stat, error) {
	if !c.async {
		return c.Client.Set(ctx, path, data, version)
	}
	return c.a.Set(path, data, version).Wait(ctx)
}

func (c api) SetACL(ctx context.Context, path string, acl []client.ACL, version int32) (client.Stat, error) {
	if !c.async {
		return c.Client.SetACL(ctx, path, acl, version)
	}
	return c.a.SetACL(path, acl, version).Wait(ctx)
}

func (c api) Sync(ctx context.Context, path string) error {
	if !c.async {
		return c.Client.Sync(ctx, path)
	}
	_, err := c.a.Sync(path).Wait(ctx)
	return err
}

func (c api) Multi(ctx context.Context, ops ...client.Op) ([]client.OpResult, error) {
	if !c.async {
		return c.Client.Multi(ctx, ops...)
	}
	return c.a.Multi(ops).Wait(ctx)
}

func (c api) MultiRead(ctx context.Context, ops ...client.Op) ([]client.OpResult, error) {
	if !c.async {
		return c.Client.MultiRead(ctx, ops...)
	}
	return c.a.MultiRead(ops).Wait(ctx)
}

func (c api) AddWatch(ctx context.Context, path string, mode client.WatchMode) (*client.Watch, error) {
	if !c.async {
		return c.Client.AddWatch(ctx, path, mode)
	}
	return c.a.AddWatch(path, mode).Wait(ctx)
}

func (c api) CheckWatches(ctx context.Context, path string, wt client.WatchType) error {
	if !c.async {
		return c.Client.Session().CheckWatches(ctx, path, wt)
	}
	_, err := c.a.CheckWatches(path, wt).Wait(ctx)
	return err
}

func (c api) RemoveWatches(ctx context.Context, path string, wt client.WatchType) error {
	if !c.async {
		return c.Client.Session().RemoveWatches(ctx, path, wt)
	}
	_, err := c.a.RemoveWatches(path, wt).Wait(ctx)
	return err
}

func (c api) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	return onPath(ctx, c, prefix, c.Client.Session().Ephemerals, c.a.Ephemerals)
}

func (c api) CountDescendants(ctx context.Context, path string) (int, error) {
	return onPath(ctx, c, path, c.Client.CountDescendants, c.a.CountDescendants)
}

func (c api) WhoAmI(ctx context.Context) ([]client.Identity, error) {
	if !c.async {
		return c.Client.Session().WhoAmI(ctx)
	}
	return c.a.WhoAmI().Wait(ctx)
}

func (c api) Reconfig(ctx context.Context, m client.Members, version int64) (client.Node, error) {
	if !c.async {
		return c.Client.Ensemble().Reconfig(ctx, m, version)
	}
	return c.a.Reconfig(m, version).Wait(ctx)
}

func (c api) AddAuth(ctx context.Context, scheme, auth string) error {
	if !c.async {
		return c.Client.Session().AddAuth(ctx, scheme, []byte(auth))
	}
	_, err := c.a.AddAuth(scheme, []byte(auth)).Wait(ctx)
	return err
}
