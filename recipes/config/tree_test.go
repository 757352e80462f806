package config_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/config"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

func openTree(t *testing.T, ctx context.Context, c *client.Client, o config.TreeOptions) *config.Tree {
	t.Helper()
	tree, err := config.OpenTree(ctx, c, "/app/keys", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close(context.Background()) })
	return tree
}

// update replaces all keys.
func update(w *trial.World, c *client.Client, to map[string]string) config.Snapshot {
	w.Helper()
	now, err := config.UpdateTree(w.Ctx, c, "/app/keys", config.TreeOptions{}, func(keys map[string]string) error {
		clear(keys)
		maps.Copy(keys, to)
		return nil
	})
	w.Must(err)
	return now
}

type keys = map[string]string

// One change creates, sets and deletes keys, and wakes a reader once.
func TestTraceTree(t *testing.T) {
	w := trial.New(t)
	update(w, w.Look, keys{"a": "1", "b": "2"})
	rec := w.Record()
	tree := openTree(t, w.Ctx, w.C, config.TreeOptions{})
	steps := []keys{{"a": "1", "b": "2"}, {"a": "2", "c": ""}, {}}
	i := 0
	for now, err := range tree.Follow(w.Ctx) {
		w.Must(err)
		if !maps.Equal(now.Keys, steps[i]) || now.Version != int32(i) {
			t.Errorf("step %d: keys are %v, want %v", i, now, steps[i])
		}
		if i++; i == len(steps) {
			break
		}
		if made := update(w, w.Look, steps[i]); made.Version != int32(i) || !maps.Equal(made.Keys, steps[i]) {
			t.Errorf("update has made %v", made)
		}
	}
	ready := "getData /app/keys/ready"
	// A read of several nodes counts as one request.
	want := []string{"sync /app/keys/ready", "addWatch /app/keys/ready", ready, "getChildren2 /app/keys", "multiRead"}
	for range 2 {
		want = append(want, "event NodeDataChanged /app/keys/ready", ready, "getChildren2 /app/keys", "multiRead")
	}
	var got []string
	for _, line := range w.Trace(rec) {
		if line, _, found := strings.Cut(line, " "); found && line == "multiRead" {
			if got[len(got)-1] != line {
				got = append(got, line)
			}
			continue
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("it asks for\n%q, want\n%q", got, want)
	}
}

func TestTraceUpdateTree(t *testing.T) {
	w := trial.New(t)
	update(w, w.Look, keys{"a": "1", "b": "2", "same": "3"})
	rec := w.Record()
	update(w, w.C, keys{"a": "2", "c": "4", "same": "3"})
	read := []string{"getChildren2 /app/keys", "multiRead /app/keys/ready", "multiRead /app/keys", "multiRead /app/keys/a", "multiRead /app/keys/b", "multiRead /app/keys/same"}
	got := w.Trace(rec)
	slices.Sort(got[3:min(6, len(got))])
	want := append(read, "multi /app/keys/ready", "multi /app/keys/a", "multi /app/keys/c", "multi /app/keys/same", "multi /app/keys/b")
	if !slices.Equal(got, want) {
		t.Errorf("it asks for %q, want %q", got, want)
	}
	update(w, w.C, keys{"a": "2", "c": "4", "same": "3"}) // changes nothing, which the leader confirms
	var written []string
	for _, line := range w.Trace(rec) {
		if op, _, _ := strings.Cut(line, " "); op == "multi" || op == "sync" {
			written = append(written, line)
		}
	}
	if want := []string{"multi /app/keys/ready"}; !slices.Equal(written, want) {
		t.Errorf("an update that changes nothing asks for %q, want %q", written, want)
	}
}

// The pattern of the ZooKeeper paper: a program that changes the keys one by one deletes
// "ready" first. Readers keep what they have until it is back.
func TestReadersWaitForReady(t *testing.T) {
	w := trial.New(t)
	update(w, w.Look, keys{"a": "1", "b": "1"})
	tree := openTree(t, w.Ctx, w.C, config.TreeOptions{})
	w.Must(w.Look.Delete(w.Ctx, "/app/keys/ready", client.AnyVersion))
	for now, err := range tree.Follow(w.Ctx) {
		if !maps.Equal(now.Keys, keys{"a": "1", "b": "1"}) {
			t.Fatalf("keys are %v in the middle of a change", now.Keys)
		}
		if errors.Is(err, config.ErrNotReady) {
			break
		}
		w.Must(err)
	}
	write(w, "/app/keys/a", "2")
	if err := tree.Sync(w.Ctx); !errors.Is(err, config.ErrNotReady) || tree.Get().Keys["a"] != "1" {
		t.Errorf("sync = %v, a is %s, want ErrNotReady and 1", err, tree.Get().Keys["a"])
	}
	_, err := tree.Update(w.Ctx, func(keys) error { return nil })
	if !errors.Is(err, config.ErrNotReady) {
		t.Errorf("update in the middle of a change = %v", err)
	}
	write(w, "/app/keys/b", "2")
	_, err = w.Look.Create(w.Ctx, "/app/keys/ready", nil, client.CreateOptions{})
	w.Must(err)
	for now, err := range tree.Follow(w.Ctx) {
		if err == nil {
			if !maps.Equal(now.Keys, keys{"a": "2", "b": "2"}) {
				t.Errorf("keys are %v behind the change", now.Keys)
			}
			break
		}
	}
	if err := tree.Problem(); err != nil {
		t.Errorf("problem is %v", err)
	}
}

// An update starts from the newest keys, also those that it reads and does not change.
func TestTreeUpdatesAreSerial(t *testing.T) {
	w := trial.New(t)
	update(w, w.Look, keys{"a": "1", "b": "1"})
	var seen []string
	now, err := config.UpdateTree(w.Ctx, w.C, "/app/keys", config.TreeOptions{}, func(k keys) error {
		if seen = append(seen, k["a"]); len(seen) == 1 { // somebody else is faster
			update(w, w.Look, keys{"a": "2", "b": "1"})
		}
		k["b"] = "as a: " + k["a"]
		return nil
	})
	if err != nil || now.Keys["b"] != "as a: 2" || !slices.Equal(seen, []string{"1", "2"}) {
		t.Errorf("update = %v, %v, having seen a as %q, want what it was last", now, err, seen)
	}
}

// A program that deletes "ready" and creates it again after its change makes the versions of
// "ready" start at 0 again. An update that started from the keys before that change fails.
func TestTreeUpdateBesideAnotherProgram(t *testing.T) {
	w := trial.New(t)
	update(w, w.Look, keys{"a": "1", "b": "1"})
	calls := 0
	now, err := config.UpdateTree(w.Ctx, w.C, "/app/keys", config.TreeOptions{}, func(k keys) error {
		if calls++; calls == 1 {
			w.Must(w.Look.Delete(w.Ctx, "/app/keys/ready", client.AnyVersion))
			_, err := w.Look.Set(w.Ctx, "/app/keys/a", []byte("2"), client.AnyVersion)
			w.Must(err)
			_, err = w.Look.Create(w.Ctx, "/app/keys/ready", nil, client.CreateOptions{})
			w.Must(err)
		}
		k["b"] = "as a: " + k["a"]
		return nil
	})
	if err != nil || now.Keys["b"] != "as a: 2" || calls != 2 {
		t.Errorf("update = %v, %v after %d calls", now, err, calls)
	}
}

// While the default applies, Sync returns no error, and followers receive nothing.
func TestTreeSyncOfDefault(t *testing.T) {
	w := trial.New(t)
	tree := openTree(t, w.Ctx, w.C, config.TreeOptions{Default: keys{"a": "0"}})
	next, stop := iter.Pull2(tree.Follow(w.Ctx))
	defer stop()
	if now, err, _ := next(); err != nil || !maps.Equal(now.Keys, keys{"a": "0"}) {
		t.Errorf("follow = %v, %v", now, err)
	}
	w.Must(tree.Sync(w.Ctx))
	update(w, w.Look, keys{"a": "1"})
	if now, err, _ := next(); err != nil || !maps.Equal(now.Keys, keys{"a": "1"}) {
		t.Errorf("follow = %v, %v, want what is new", now, err)
	}
}

func TestTreeValidates(t *testing.T) {
	w := trial.New(t)
	o := config.TreeOptions{Default: keys{"a": "0"}, Validate: func(k map[string]string) error {
		if k["a"] == "" {
			return errors.New("a is missing")
		}
		return nil
	}}
	tree := openTree(t, w.Ctx, w.C, o)
	if got := tree.Get(); got.Keys["a"] != "0" || got.Version != -1 {
		t.Errorf("without a directory the keys are %v, want the default", got)
	}
	_, err := tree.Update(w.Ctx, func(k keys) error { k["b"] = "1"; return nil })
	if !errors.Is(err, config.ErrInvalid) {
		t.Errorf("update to what is invalid = %v", err)
	}
	_, err = tree.Update(w.Ctx, func(k keys) error { k["a"] = "1"; return nil })
	w.Must(err)
	w.Must(tree.Sync(w.Ctx))
	update(w, w.Look, keys{"b": "1"}) // by a program without Validate
	if err := tree.Sync(w.Ctx); !errors.Is(err, config.ErrInvalid) {
		t.Errorf("sync = %v", err)
	}
	if got := tree.Get(); !maps.Equal(got.Keys, keys{"a": "1"}) || !errors.Is(tree.Problem(), config.ErrInvalid) {
		t.Errorf("keys are %v with problem %v, want the last good ones", got, tree.Problem())
	}
	got := tree.Get()
	got.Keys["a"] = "mine"
	if tree.Get().Keys["a"] != "1" {
		t.Error("the map that Get returns is not the caller's")
	}
}

func TestTreeBadUse(t *testing.T) {
	w := trial.New(t)
	tree := openTree(t, w.Ctx, w.C, config.TreeOptions{Default: keys{}})
	for _, key := range []string{"", ".", "..", "a/b", "ready", "a\x00"} {
		_, err := tree.Update(w.Ctx, func(k keys) error { k[key] = "1"; return nil })
		if !errors.Is(err, client.ErrBadArguments) || !strings.Contains(err.Error(), fmt.Sprintf("%q", key)) {
			t.Errorf("key %q: %v", key, err)
		}
	}
	refused := errors.New("no")
	if _, err := tree.Update(w.Ctx, func(keys) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("update = %v, want what the function has returned", err)
	}
	if got := w.Children("/app/keys"); len(got) > 0 {
		t.Errorf("%q is left", got)
	}
	w.Must(tree.Close(w.Ctx))
	w.Must(tree.Close(w.Ctx))
	if err := tree.Sync(w.Ctx); !errors.Is(err, recipes.ErrClosed) {
		t.Errorf("sync after close = %v", err)
	}
	if _, err := tree.Update(w.Ctx, func(keys) error { return nil }); !errors.Is(err, recipes.ErrClosed) {
		t.Errorf("update after close = %v", err)
	}
}

// If the ACL forbids changing one key, nothing is changed.
func TestTreeForbidden(t *testing.T) {
	w := trial.New(t)
	update(w, w.Look, keys{"a": "1"})
	_, err := w.Look.Create(w.Ctx, "/app/keys/fixed", []byte("1"), client.CreateOptions{ACL: client.ReadACL()})
	w.Must(err)
	tree := openTree(t, w.Ctx, w.C, config.TreeOptions{})
	_, err = tree.Update(w.Ctx, func(k keys) error { k["a"], k["fixed"] = "2", "2"; return nil })
	if !errors.Is(err, client.ErrNoAuth) || !strings.Contains(err.Error(), "/app/keys") {
		t.Errorf("update = %v", err)
	}
	w.Must(tree.Sync(w.Ctx))
	if got := tree.Get().Keys; !maps.Equal(got, keys{"a": "1", "fixed": "1"}) {
		t.Errorf("keys are %v after a refused change", got)
	}
}
