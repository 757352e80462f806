package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/typed"
)

// TestFollowValueOfNode follows one node: its value, each change, data that is no value, and its deletion, as with
// kazoo's DataWatch.
func TestFollowValueOfNode(t *testing.T) {
	w := newWorld(t, addresses(t))
	values := ValuesOf[int](w.ready(w.client(), Options{Depth: NodeOnly}), nil)
	steps := []struct {
		want string
		then func()
	}{
		{"none", func() { w.create("", "1") }},
		{"1", func() { w.set("", "2") }},
		{"2", func() { w.set("", "two") }},
		{"bad", func() { w.set("", "3") }},
		{"3", func() { w.delete("") }},
		{"none", nil},
	}
	i := 0
	for change, err := range values.Follow(w.ctx) {
		got := fmt.Sprint(change.Now.Value)
		if !change.Now.Exists {
			got = "none"
		}
		if errors.Is(err, typed.ErrData) && strings.Contains(err.Error(), w.root) {
			got = "bad"
		} else {
			w.must(err)
		}
		current, currentErr := values.Get(w.root)
		if got != steps[i].want || change.Path != w.root || current != change.Now || (err == nil) != (currentErr == nil) {
			t.Errorf("step %d: %s is %s, %v and currently %+v, want %s", i, change.Path, got, err, current, steps[i].want)
		}
		if steps[i].then == nil {
			break
		}
		steps[i].then()
		i++
	}
}

// TestFollowValues follows children and subtrees: first the nodes that exist, then each change.
func TestFollowValues(t *testing.T) {
	for _, test := range []struct {
		name  string
		depth int
		want  []string
	}{
		{"children", ChildrenOnly, []string{"=parent", "/a=1", "/b=2", "/a=3", "/b gone"}},
		{"tree", Whole, []string{"=parent", "/a=1", "/a/x=1", "/b=2", "/a/x=4", "/a=3", "/a/x gone", "/b gone"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, addresses(t))
			for _, n := range [][2]string{{"", "parent"}, {"/a", "1"}, {"/a/x", "1"}, {"/b", "2"}} {
				w.create(n[0], n[1])
			}
			k := w.ready(w.client(), Options{Depth: test.depth})
			values := ValuesOf(k, typed.String{})
			// What the test does when it has seen a change. Quicker changes may be seen as one.
			then := map[string]func(){
				"/b=2": func() { w.set("/a/x", "4"); w.must(k.Sync(w.ctx)); w.set("/a", "3") },
				"/a=3": func() { w.delete("/a/x"); w.must(k.Sync(w.ctx)); w.delete("/b") },
			}
			var got []string
			for change, err := range values.Follow(w.ctx) {
				w.must(err)
				what := strings.TrimPrefix(change.Path, w.root)
				if change.Now.Exists {
					what += "=" + change.Now.Value
				} else {
					what += " gone"
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
			w.must(k.Sync(w.ctx))
			if got, err := values.Below(w.root); err != nil || !maps.Equal(got, map[string]string{"a": "3"}) {
				t.Errorf("below it are %v, %v, want a with 3", got, err)
			}
			if v, err := values.Get(w.root + "/b"); err != nil || v.Exists {
				t.Errorf("b is %+v, %v, and was deleted", v, err)
			}
		})
	}
}

// TestNoValue has a node whose data is no value: it is named in the error, and the others are returned. Parents
// without data are no error.
func TestNoValue(t *testing.T) {
	w := newWorld(t, addresses(t))
	for _, n := range [][2]string{{"", ""}, {"/a", "1"}, {"/bad", "one"}, {"/dir", ""}, {"/dir/b", "2"}} {
		w.create(n[0], n[1])
	}
	values := ValuesOf[int](w.ready(w.client(), Options{}), nil)
	got, err := values.Below(w.root)
	if !maps.Equal(got, map[string]int{"a": 1, "dir/b": 2}) || !errors.Is(err, typed.ErrData) || !strings.Contains(err.Error(), w.root+"/bad") {
		t.Errorf("it is %v, %v, want two values, and the one that is none", got, err)
	}
	if strings.Contains(err.Error(), w.root+"/dir") {
		t.Errorf("%v: a parent without data is no error", err)
	}
}

// TestForbiddenValue has a node that may not be read: it comes with an error, and the others are followed.
func TestForbiddenValue(t *testing.T) {
	w := newWorld(t, addresses(t))
	w.create("", "0")
	w.create("/a", "1")
	secret := []client.ACL{client.DigestACL(client.PermAll, "admin", "secret")}
	_, err := w.w.Create(w.ctx, w.root+"/s", []byte("2"), client.CreateOptions{ACL: secret})
	w.must(err)
	values := ValuesOf[int](w.ready(w.client(), Options{Depth: ChildrenOnly}), nil)
	got := make(map[string]bool)
	for change, err := range values.Follow(w.ctx) {
		name := strings.TrimPrefix(change.Path, w.root)
		got[name] = err == nil
		if err != nil && (name != "/s" || !errors.Is(err, client.ErrNoAuth) || !strings.Contains(err.Error(), w.root+"/s")) {
			t.Errorf("%s: %v", name, err)
		}
		if change.Now.Value == 2 {
			break
		}
		if len(got) == 3 {
			w.set("/a", "2")
		}
	}
	if want := (map[string]bool{"": true, "/a": true, "/s": false}); !maps.Equal(got, want) {
		t.Errorf("followed %v, want %v", got, want)
	}
	if v, err := values.Get(w.root + "/s"); v.Exists || err != nil {
		t.Errorf("s is %+v, %v", v, err)
	}
}

// TestFollowEnds checks the last error of Follow.
func TestFollowEnds(t *testing.T) {
	w := newWorld(t, addresses(t))
	k := w.ready(w.client(), Options{})
	values := ValuesOf[int](k, nil)
	last := func(ctx context.Context) (err error) {
		for _, err = range values.Follow(ctx) {
		}
		return err
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(w.ctx)
	cancel(enough)
	if err := last(ctx); !errors.Is(err, enough) {
		t.Errorf("with an ended context it ends with %v", err)
	}
	k.Close()
	if err := last(w.ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("of a closed cache it ends with %v", err)
	}
}
