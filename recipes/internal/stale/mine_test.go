package stale_test

import (
	"context"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes/config"
	"github.com/zkd-project/zkd/recipes/idempotent"
	"github.com/zkd-project/zkd/recipes/naming"
	"github.com/zkd-project/zkd/recipes/value"
)

// both creates a recipe for each of the two clients.
func both[R any](w *world, open func(c *client.Client) (R, error)) (here, there R) {
	w.Helper()
	here, err := open(w.here)
	w.must(err)
	there, err = open(w.there)
	w.must(err)
	return here, there
}

// put returns an operation on a directory.
func put(key, text string) func(map[string]string) error {
	return func(keys map[string]string) error { keys[key] = text; return nil }
}

// A change is made even if the state that the server knows would make it needless.
func TestConfigUpdateToWhatItWas(t *testing.T) {
	w := newWorld(t)
	update := func(c *client.Client, text string) (config.Snapshot, error) {
		return config.UpdateTree(w.ctx, c, "/c", config.TreeOptions{}, put("k", text))
	}
	_, err := update(w.there, "1")
	w.must(err)
	w.lag()
	newer, err := update(w.there, "2")
	w.must(err)
	now, err := behind(w, func(ctx context.Context) (config.Snapshot, error) { return update(w.here, "1") })
	w.must(err)
	if now.Keys["k"] != "1" || now.Version <= newer.Version {
		t.Errorf("updated to %v at version %d, behind %d", now.Keys, now.Version, newer.Version)
	}
	w.must(w.there.Sync(w.ctx, "/"))
	end, err := config.UpdateTree(w.ctx, w.there, "/c", config.TreeOptions{}, func(map[string]string) error { return nil })
	if w.must(err); end.Keys["k"] != "1" {
		t.Errorf("there is %v behind the last update, to 1", end.Keys)
	}
}

// Keys that another client has created exist, and are not created again.
func TestConfigUpdateOfNewDirectory(t *testing.T) {
	w := newWorld(t)
	w.lag()
	_, err := config.UpdateTree(w.ctx, w.there, "/c", config.TreeOptions{}, put("a", "1"))
	w.must(err)
	now, err := behind(w, func(ctx context.Context) (config.Snapshot, error) {
		return config.UpdateTree(ctx, w.here, "/c", config.TreeOptions{}, put("b", "2"))
	})
	if w.must(err); len(now.Keys) != 2 {
		t.Errorf("there is %v, want both keys", now.Keys)
	}
}

// The default is not used where there is a value.
func TestConfigDefault(t *testing.T) {
	w := newWorld(t)
	w.lag()
	_, err := config.Set(w.ctx, w.there, "/c", config.Options[int]{}, 7, client.AnyVersion)
	w.must(err)
	_, err = config.UpdateTree(w.ctx, w.there, "/tree", config.TreeOptions{}, put("k", "7"))
	w.must(err)
	standard := 1
	cfg, err := behind(w, func(ctx context.Context) (*config.Config[int], error) {
		return config.Open(ctx, w.here, "/c", config.Options[int]{Default: &standard})
	})
	w.must(err)
	defer cfg.Close(w.ctx)
	if cfg.Get() != 7 {
		t.Errorf("opened with %d, want 7", cfg.Get())
	}
	w.lag()
	_, err = config.UpdateTree(w.ctx, w.there, "/other", config.TreeOptions{}, put("k", "7"))
	w.must(err)
	tree, err := behind(w, func(ctx context.Context) (*config.Tree, error) {
		return config.OpenTree(ctx, w.here, "/other", config.TreeOptions{Default: map[string]string{"k": "1"}})
	})
	w.must(err)
	defer tree.Close(w.ctx)
	if got := tree.Get().Keys["k"]; got != "7" {
		t.Errorf("opened with %q, want 7", got)
	}
}

// Set creates or replaces the node, whatever the server knows of it, and Sync sees what was
// set before.
func TestConfigSet(t *testing.T) {
	w := newWorld(t)
	set := func(c *client.Client, v int, version int32) (int32, error) {
		return config.Set(w.ctx, c, "/c", config.Options[int]{}, v, version)
	}
	w.lag()
	_, err := set(w.there, 1, client.AnyVersion)
	w.must(err)
	version, err := behind(w, func(context.Context) (int32, error) { return set(w.here, 2, client.AnyVersion) })
	if w.must(err); version != 1 {
		t.Errorf("set version %d, want 1", version)
	}
	cfg, err := config.Open(w.ctx, w.here, "/c", config.Options[int]{})
	w.must(err)
	defer cfg.Close(w.ctx)
	w.lag()
	_, err = set(w.there, 3, client.AnyVersion)
	w.must(err)
	_, err = behind(w, func(ctx context.Context) (int32, error) { return cfg.Set(ctx, 4, version) })
	w.is(err, client.ErrBadVersion)
	w.lag()
	_, err = set(w.there, 5, client.AnyVersion)
	w.must(err)
	w.must(behindErr(w, cfg.Sync))
	if cfg.Get() != 5 {
		t.Errorf("has %d behind a sync, want 5", cfg.Get())
	}
}

func TestNaming(t *testing.T) {
	w := newWorld(t)
	here, there := both(w, func(c *client.Client) (*naming.Names, error) { return naming.New(c, "/names", naming.Options{}) })
	w.must(there.Bind(w.ctx, "gone", []byte("1")))
	w.must(there.Bind(w.ctx, "changed", []byte("1")))
	for name, c := range map[string]struct {
		change func() error
		call   func(ctx context.Context) error
		want   error
	}{
		"bind bound":  {func() error { return there.Bind(w.ctx, "new", []byte("1")) }, func(ctx context.Context) error { return here.Bind(ctx, "new", []byte("2")) }, naming.ErrBound},
		"bind in new": {func() error { return there.Bind(w.ctx, "a/b", nil) }, func(ctx context.Context) error { return here.Bind(ctx, "a/c", nil) }, nil},
		"unbind new":  {func() error { return there.Bind(w.ctx, "new2", nil) }, func(ctx context.Context) error { return here.Unbind(ctx, "new2", client.AnyVersion) }, nil},
		"rebind new": {func() error { return there.Bind(w.ctx, "new3", nil) }, func(ctx context.Context) error {
			_, err := here.Rebind(ctx, "new3", []byte("2"), client.AnyVersion)
			return err
		}, nil},
		"rebind gone": {func() error { return there.Unbind(w.ctx, "gone", client.AnyVersion) }, func(ctx context.Context) error {
			_, err := here.Rebind(ctx, "gone", nil, client.AnyVersion)
			return err
		}, naming.ErrUnbound},
		"rebind changed": {func() error { _, err := there.Rebind(w.ctx, "changed", []byte("2"), 0); return err },
			func(ctx context.Context) error { _, err := here.Rebind(ctx, "changed", []byte("1"), 0); return err }, client.ErrBadVersion},
	} {
		w.lag()
		w.must(c.change())
		if err := behindErr(w, c.call); c.want == nil && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if c.want != nil {
			w.is(err, c.want)
		}
	}
}

// No change is lost, with either kind.
func TestValue(t *testing.T) {
	for name, exact := range map[string]bool{"plain": false, "exact": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			here, there := both(w, func(c *client.Client) (*value.Value[int], error) {
				return value.New(c, "/v", value.Options[int]{Exact: exact})
			})
			defer here.Close(w.ctx)
			defer there.Close(w.ctx)
			add := func(n int) func(int) (int, error) { return func(v int) (int, error) { return v + n, nil } }
			for i := range 2 { // the first time there is no node
				w.lag()
				now, err := there.Update(w.ctx, add(1))
				w.must(err)
				was, err := behind(w, func(ctx context.Context) (typed.Value[int], error) { return here.Update(ctx, add(10)) })
				if w.must(err); was.Value != now.Value+10 {
					t.Errorf("%d: updated to %d from %d", i, was.Value, now.Value)
				}
			}
			old, err := here.Get(w.ctx)
			w.must(err)
			w.lag()
			_, err = there.Set(w.ctx, 0)
			w.must(err)
			_, err = behind(w, func(ctx context.Context) (typed.Value[int], error) { return here.TrySet(ctx, old, 5) })
			if !value.Conflict(err) {
				t.Errorf("a set of what was changed is %v", err)
			}
			w.lag()
			_, err = there.Set(w.ctx, 1)
			w.must(err)
			_, err = behind(w, func(ctx context.Context) (typed.Value[int], error) { return here.Set(ctx, 2) })
			w.must(err)
			w.must(w.there.Sync(w.ctx, "/"))
			if end, err := there.Get(w.ctx); err != nil || end.Value != 2 {
				t.Errorf("the end is %d, %v, want 2", end.Value, err)
			}
		})
	}
}

// A number that the server does not know of yet is neither lost nor given out twice, and
// causes no overflow.
func TestCounter(t *testing.T) {
	w := newWorld(t)
	here, there := both(w, func(c *client.Client) (*value.Counter, error) {
		return value.NewCounter(c, "/n", value.CounterOptions{})
	})
	const most = 1<<63 - 1
	_, err := there.Set(w.ctx, most)
	w.must(err)
	w.lag()
	_, err = there.Set(w.ctx, 1)
	w.must(err)
	did, err := behind(w, here.Increment)
	if err != nil || did.After != 2 {
		t.Errorf("increment of 1 is %d, %v", did.After, err)
	}
	w.lag()
	_, err = there.Add(w.ctx, 5)
	w.must(err)
	ok, err := behind(w, func(ctx context.Context) (bool, error) { return here.CompareAndSet(ctx, 7, 8) })
	if err != nil || !ok {
		t.Errorf("compare 7 and set 8 = %t, %v", ok, err)
	}
	w.lag()
	_, err = there.Add(w.ctx, 1)
	w.must(err)
	ok, err = behind(w, func(ctx context.Context) (bool, error) { return here.CompareAndSet(ctx, 8, 10) })
	if err != nil || ok {
		t.Errorf("compare 8 and set 10 = %t, %v, and there is 9", ok, err)
	}
}

// A request that another client has done is not done again, but one that was pruned is.
func TestIdempotent(t *testing.T) {
	w := newWorld(t)
	here, there := both(w, func(c *client.Client) (*idempotent.Requests, error) {
		return idempotent.New(c, "/done", idempotent.Options{})
	})
	op := func(i string) client.Op { return client.CreateOp("/w"+i, nil, client.CreateOptions{}) }
	w.lag()
	_, err := there.Do(w.ctx, "1", op("1"))
	w.must(err)
	did, err := behind(w, func(ctx context.Context) (idempotent.Outcome, error) { return here.Do(ctx, "1", op("2")) })
	if err != nil || !did.Before {
		t.Errorf("done again: %+v, %v", did, err)
	}
	w.lag()
	_, err = there.Do(w.ctx, "2", op("3"))
	w.must(err)
	w.must(behindErr(w, func(ctx context.Context) error { return here.Forget(ctx, "2") }))
	w.must(w.there.Sync(w.ctx, "/"))
	if _, done, err := there.Done(w.ctx, "2"); err != nil || done {
		t.Errorf("forgotten, and done is %t, %v", done, err)
	}
}
