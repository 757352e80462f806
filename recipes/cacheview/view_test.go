package cacheview_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/cacheview"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

func put(w *trial.World, path, data string) {
	w.Helper()
	_, err := w.Look.Set(w.Ctx, path, []byte(data), client.AnyVersion)
	if errors.Is(err, client.ErrNoNode) {
		_, err = settle.CreateAll(w.Ctx, w.Look, path, []byte(data), client.CreateOptions{})
	}
	w.Must(err)
}

func drop(w *trial.World, path string) {
	w.Helper()
	w.Must(w.Look.Delete(w.Ctx, path, client.AnyVersion))
}

// Follow of a Node returns its value, each change, and its deletion, like kazoo's DataWatch.
func TestNode(t *testing.T) {
	w := trial.New(t)
	node, err := cacheview.OpenNode(w.Ctx, w.C, "/n", cacheview.Options[int]{})
	w.Must(err)
	defer node.Close(w.Ctx)
	steps := []struct {
		want string
		then func()
	}{
		{"none", func() { put(w, "/n", "1") }},
		{"1", func() { put(w, "/n", "2") }},
		{"2", func() { put(w, "/n", "two") }},
		{"bad", func() { put(w, "/n", "3") }},
		{"3", func() { drop(w, "/n") }},
		{"none", nil},
	}
	i := 0
	for now, err := range node.Follow(w.Ctx) {
		got := fmt.Sprint(now.Value)
		if !now.Exists {
			got = "none"
		}
		if errors.Is(err, typed.ErrData) && strings.Contains(err.Error(), "/n") {
			got = "bad"
		} else {
			w.Must(err)
		}
		current, currentErr := node.Current()
		if got != steps[i].want || current != now || (err == nil) != (currentErr == nil) {
			t.Errorf("step %d: it is %s, %v and currently %+v, want %s", i, got, err, current, steps[i].want)
		}
		if steps[i].then == nil {
			break
		}
		steps[i].then()
		i++
	}
}

// Follow of Nodes returns the existing nodes, and then each change.
func TestNodes(t *testing.T) {
	for _, test := range []struct {
		name string
		open func(context.Context, *client.Client, string, cacheview.Options[string]) (*cacheview.Nodes[string], error)
		want []string
		last map[string]string
	}{
		{"children", cacheview.OpenChildren[string], []string{"a=1", "b=2", "a=3", "b gone"}, map[string]string{"a": "3"}},
		{"tree", cacheview.OpenTree[string], []string{"a=1", "a/x=1", "b=2", "a/x=4", "a=3", "a/x gone", "b gone"}, map[string]string{"a": "3"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := trial.New(t)
			put(w, "/app", "parent")
			put(w, "/app/a", "1")
			put(w, "/app/a/x", "1")
			put(w, "/app/b", "2")
			nodes, err := test.open(w.Ctx, w.C, "/app", cacheview.Options[string]{Codec: typed.String{}})
			w.Must(err)
			defer nodes.Close(w.Ctx)
			// What the test does when it has seen a change. Quicker changes may be seen as one.
			then := map[string]func(){
				"b=2": func() { put(w, "/app/a/x", "4"); w.Must(nodes.Sync(w.Ctx)); put(w, "/app/a", "3") },
				"a=3": func() { drop(w, "/app/a/x"); w.Must(nodes.Sync(w.Ctx)); drop(w, "/app/b") },
			}
			var got []string
			for change, err := range nodes.Follow(w.Ctx) {
				w.Must(err)
				what := change.Name + " gone"
				if change.Now.Exists {
					what = change.Name + "=" + change.Now.Value
				}
				if got = append(got, what); len(got) == len(test.want) {
					break
				}
				if do := then[what]; do != nil {
					do()
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("followed %q, want %q", got, test.want)
			}
			w.Must(nodes.Sync(w.Ctx))
			if got, err := nodes.Current(); err != nil || !maps.Equal(got, test.last) {
				t.Errorf("it is %v, %v, want %v", got, err, test.last)
			}
			if got := nodes.Names(); !slices.Equal(got, []string{"a"}) {
				t.Errorf("names are %q", got)
			}
			for name, want := range map[string]string{"a": "3", "b": "", "": ""} {
				if v, err := nodes.Get(name); err != nil || v.Value != want || v.Exists != (want != "") {
					t.Errorf("%q is %+v, %v, want %q", name, v, err, want)
				}
			}
		})
	}
}

// A node whose data is not a T is named in the error, and the others are returned. Parents
// without data are no error.
func TestNoValue(t *testing.T) {
	w := trial.New(t)
	put(w, "/app/a", "1")
	put(w, "/app/bad", "one")
	_, err := w.Look.Create(w.Ctx, "/app/dir", nil, client.CreateOptions{})
	w.Must(err)
	put(w, "/app/dir/b", "2")
	nodes, err := cacheview.OpenTree(w.Ctx, w.C, "/app", cacheview.Options[int]{})
	w.Must(err)
	defer nodes.Close(w.Ctx)
	got, err := nodes.Current()
	if !maps.Equal(got, map[string]int{"a": 1, "dir/b": 2}) || !errors.Is(err, typed.ErrData) || !strings.Contains(err.Error(), "/app/bad") {
		t.Errorf("it is %v, %v, want two values, and the one that is none", got, err)
	}
	if strings.Contains(err.Error(), "/app/dir") {
		t.Errorf("%v: a parent without data is no error", err)
	}
}

// Opening a view sets one watch; a change wakes it once.
func TestTrace(t *testing.T) {
	w := trial.New(t)
	put(w, "/app/a", "1")
	rec := w.Record()
	nodes, err := cacheview.OpenChildren(w.Ctx, w.C, "/app", cacheview.Options[int]{})
	w.Must(err)
	defer nodes.Close(w.Ctx)
	for change, err := range nodes.Follow(w.Ctx) {
		w.Must(err)
		if change.Now.Value == 2 {
			break
		}
		put(w, "/app/a", "2")
	}
	got := strings.Join(w.Trace(rec), ", ")
	want := "sync /app, addWatch /app, getData /app, getChildren2 /app, getData /app/a, event NodeDataChanged /app/a, getData /app/a"
	if got != want {
		t.Errorf("it asks for %s, want %s", got, want)
	}
}

// While the connection is lost the last values stay, and Stale reports that they may be old.
func TestStale(t *testing.T) {
	w := trial.New(t)
	put(w, "/n", "1")
	node, err := cacheview.OpenNode(w.Ctx, w.C, "/n", cacheview.Options[int]{})
	w.Must(err)
	defer node.Close(w.Ctx)
	if _, stale := node.Stale(); stale {
		t.Error("it is stale, but the connection is there")
	}
	w.Disconnect()
	put(w, "/n", "2")
	for _, stale := node.Stale(); !stale; _, stale = node.Stale() {
		runtime.Gosched()
	}
	if v, err := node.Current(); err != nil || v.Value != 1 {
		t.Errorf("without a connection the value is %d, %v, want 1", v.Value, err)
	}
	w.Proxy.Accept()
	w.Must(node.Sync(w.Ctx))
	if _, stale := node.Stale(); stale {
		t.Error("it is stale after a sync")
	}
	if v, err := node.Current(); err != nil || v.Value != 2 {
		t.Errorf("after a sync the value is %d, %v, want 2", v.Value, err)
	}
}

func TestBadUse(t *testing.T) {
	w := trial.New(t)
	if _, err := cacheview.OpenNode(w.Ctx, w.C, "n", cacheview.Options[int]{}); !errors.Is(err, client.ErrBadArguments) {
		t.Errorf("open of a relative path = %v", err)
	}
	node, err := cacheview.OpenNode(w.Ctx, w.C, "/n", cacheview.Options[int]{})
	w.Must(err)
	nodes, err := cacheview.OpenTree(w.Ctx, w.C, "/n", cacheview.Options[int]{})
	w.Must(err)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(w.Ctx)
	cancel(enough)
	if err := last(node.Follow(ctx)); !errors.Is(err, enough) {
		t.Errorf("follow with an ended context = %v", err)
	}
	for range 2 {
		node.Close(w.Ctx)
		nodes.Close(w.Ctx)
	}
	if err := last(node.Follow(w.Ctx)); !errors.Is(err, recipes.ErrClosed) {
		t.Errorf("follow of a closed node = %v", err)
	}
	if err := last(nodes.Follow(w.Ctx)); !errors.Is(err, recipes.ErrClosed) {
		t.Errorf("follow of closed nodes = %v", err)
	}
	if err := node.Sync(w.Ctx); !errors.Is(err, recipes.ErrClosed) {
		t.Errorf("sync of a closed node = %v", err)
	}
}

func last[T any](seq func(func(T, error) bool)) (err error) {
	for _, err = range seq {
	}
	return err
}

// If the ACL forbids reading a node, the error has its path, and the other nodes are returned.
func TestForbidden(t *testing.T) {
	w := trial.New(t)
	put(w, "/app/a", "1")
	secret := []client.ACL{client.DigestACL(client.PermAll, "admin", "secret")}
	_, err := w.Look.Create(w.Ctx, "/app/s", []byte("2"), client.CreateOptions{ACL: secret})
	w.Must(err)
	nodes, err := cacheview.OpenChildren(w.Ctx, w.C, "/app", cacheview.Options[int]{})
	w.Must(err)
	defer nodes.Close(w.Ctx)
	got := make(map[string]bool)
	for change, err := range nodes.Follow(w.Ctx) {
		got[change.Name] = err == nil
		if err != nil && (!errors.Is(err, client.ErrNoAuth) || !strings.Contains(err.Error(), "/app/s")) {
			t.Errorf("%s: %v", change.Name, err)
		}
		if change.Name == "a" {
			break
		}
		put(w, "/app/a", "2")
	}
	if v, err := nodes.Get("s"); v.Exists || err != nil {
		t.Errorf("s is %+v, %v", v, err)
	}
	if all, err := nodes.Current(); err != nil || all["a"] == 0 || len(all) != 1 {
		t.Errorf("it is %v, %v", all, err)
	}
	if !got["a"] {
		t.Errorf("followed %v", got)
	}
}
