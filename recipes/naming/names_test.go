package naming_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/naming"
)

func open(t *testing.T, c *client.Client) *naming.Names {
	t.Helper()
	n, err := naming.New(c, "/app/names", naming.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A name is bound, resolved, rebound and unbound with one request each once its context
// exists.
func TestTrace(t *testing.T) {
	w := trial.New(t)
	names := open(t, w.C)
	w.Must(open(t, w.Look).Bind(w.Ctx, "a/other", nil))
	rec := w.Record()
	for _, step := range []struct {
		what string
		do   func() error
		want []string
	}{
		{"bind", func() error { return names.Bind(w.Ctx, "a/b", []byte("1")) }, []string{"create /app/names/a:/b"}},
		{"resolve", func() error { _, err := names.Resolve(w.Ctx, "a/b"); return err }, []string{"getData /app/names/a:/b"}},
		{"rebind", func() error { _, err := names.Rebind(w.Ctx, "a/b", []byte("2"), 0); return err }, []string{"setData /app/names/a:/b"}},
		{"rebind any", func() error { _, err := names.Rebind(w.Ctx, "a/b", nil, client.AnyVersion); return err }, []string{"exists /app/names/a:/b", "setData /app/names/a:/b"}},
		{"list", func() error { _, err := names.List(w.Ctx, "a"); return err }, []string{"getChildren2 /app/names/a:"}},
		{"unbind", func() error { return names.Unbind(w.Ctx, "a/b", 2) }, []string{"exists /app/names/a:/b", "delete /app/names/a:/b"}},
	} {
		w.Must(step.do())
		if got := w.Trace(rec); !slices.Equal(got, step.want) {
			t.Errorf("%s asks for %q, want %q", step.what, got, step.want)
		}
	}
}

// Rebind and Unbind return ErrUnbound only if the leader knows of no binding: a server that
// lags behind does not decide.
func TestTraceUnbound(t *testing.T) {
	w := trial.New(t)
	names := open(t, w.C)
	w.Must(open(t, w.Look).Bind(w.Ctx, "a", nil))
	w.Must(open(t, w.Look).Unbind(w.Ctx, "a", client.AnyVersion))
	w.Must(w.C.Sync(w.Ctx, "/"))
	rec := w.Record()
	_, err := names.Rebind(w.Ctx, "a", nil, client.AnyVersion)
	got := w.Trace(rec)
	if want := []string{"exists /app/names/a", "setData /app/names/a"}; !errors.Is(err, naming.ErrUnbound) || !slices.Equal(got, want) {
		t.Errorf("rebind = %v, asks for %q, want %q", err, got, want)
	}
	err = names.Unbind(w.Ctx, "a", client.AnyVersion)
	got = w.Trace(rec)
	if want := []string{"exists /app/names/a", "sync /app/names/a", "exists /app/names/a"}; !errors.Is(err, naming.ErrUnbound) || !slices.Equal(got, want) {
		t.Errorf("unbind = %v, asks for %q, want %q", err, got, want)
	}
}

// A follower is woken once for each change, also when the name is bound or unbound.
func TestTraceFollow(t *testing.T) {
	w := trial.New(t)
	names, admin := open(t, w.C), open(t, w.Look)
	rec := w.Record()
	steps := []struct {
		value string // "-" is unbound
		then  func() error
	}{
		{"-", func() error { return admin.Bind(w.Ctx, "a", []byte("1")) }},
		{"1", func() error { _, err := admin.Rebind(w.Ctx, "a", []byte("2"), 0); return err }},
		{"2", func() error { return admin.Unbind(w.Ctx, "a", client.AnyVersion) }},
		{"-", nil},
	}
	i := 0
	for b, err := range names.Follow(w.Ctx, "a") {
		got := string(b.Value)
		if errors.Is(err, naming.ErrUnbound) {
			got = "-"
		} else {
			w.Must(err)
		}
		if got != steps[i].value {
			t.Fatalf("step %d: it is %q, want %q", i, got, steps[i].value)
		}
		if steps[i].then == nil {
			break
		}
		w.Must(steps[i].then())
		i++
	}
	var events []string
	for _, line := range w.Trace(rec) {
		if strings.HasPrefix(line, "event") {
			events = append(events, strings.Fields(line)[1])
		}
	}
	if want := []string{"NodeCreated", "NodeDataChanged", "NodeDeleted"}; !slices.Equal(events, want) {
		t.Errorf("it was woken by %q, want %q", events, want)
	}
}

// A name may have any characters, and may be bound and be a context at the same time.
func TestAnyName(t *testing.T) {
	w := trial.New(t)
	names := open(t, w.C)
	all := []string{".", "..", "a", "a/b", "a/b/c", "a:", "a:/b", "a%2Fb", "zookeeper", "Größe 10", "\x00\xff", "😀/☂", "a /b "}
	for _, name := range all {
		w.Must(names.Bind(w.Ctx, name, []byte("value of "+name)))
	}
	for _, name := range all {
		if b, err := names.Resolve(w.Ctx, name); err != nil || string(b.Value) != "value of "+name || b.Name != name || b.Owner != 0 {
			t.Errorf("%q is %+v, %v", name, b, err)
		}
	}
	got, err := listAll(w.Ctx, names, "")
	slices.Sort(all)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, all) {
		t.Errorf("listed are %q, %v, want %q", got, err, all)
	}
	node, err := w.Look.Get(w.Ctx, "/app/names/a")
	if err != nil || string(node.Data) != "value of a" {
		t.Errorf("the node of a has %q, %v: other programs can't read it", node.Data, err)
	}
}

// listAll returns all bound names in a context and in the contexts below it.
func listAll(ctx context.Context, names *naming.Names, context string) (all []string, err error) {
	entries, err := names.List(ctx, context)
	for _, e := range entries {
		if !e.Context {
			all = append(all, e.Name)
			continue
		}
		below, err := listAll(ctx, names, e.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, err
}

func TestList(t *testing.T) {
	w := trial.New(t)
	names := open(t, w.C)
	for _, name := range []string{"b", "a", "a/x", "c/y/z"} {
		w.Must(names.Bind(w.Ctx, name, nil))
	}
	for context, want := range map[string][]naming.Entry{
		"":        {{"a", false}, {"a", true}, {"b", false}, {"c", true}},
		"a":       {{"a/x", false}},
		"b":       nil,
		"c":       {{"c/y", true}},
		"c/y":     {{"c/y/z", false}},
		"nowhere": nil,
	} {
		if got, err := names.List(w.Ctx, context); err != nil || !slices.Equal(got, want) {
			t.Errorf("in %q are %v, %v, want %v", context, got, err, want)
		}
	}
}

// One of two programs that bind a name succeeds; the other gets ErrBound.
func TestBound(t *testing.T) {
	w := trial.New(t)
	names := open(t, w.C)
	w.Must(names.BindEphemeral(w.Ctx, "a", []byte("1")))
	for i, other := range []*naming.Names{names, open(t, w.Other())} {
		if err := other.Bind(w.Ctx, "a", []byte("2")); !errors.Is(err, naming.ErrBound) || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("%d: bind = %v, want ErrBound with the name", i, err)
		}
	}
	b, err := names.Resolve(w.Ctx, "a")
	id := w.C.Session().ID()
	if err != nil || string(b.Value) != "1" || b.Owner != id {
		t.Errorf("it is %+v, %v, want 1 of session %v", b, err, id)
	}
	for _, step := range []struct {
		version int32
		err     error
		want    int32
	}{{1, client.ErrBadVersion, 0}, {0, nil, 1}, {0, client.ErrBadVersion, 0}, {client.AnyVersion, nil, 2}} {
		if got, err := names.Rebind(w.Ctx, "a", []byte(fmt.Sprint("to ", step)), step.version); !errors.Is(err, step.err) || got != step.want {
			t.Errorf("rebind of version %d = %d, %v, want %d, %v", step.version, got, err, step.want, step.err)
		}
	}
	if err := names.Unbind(w.Ctx, "a", 0); !errors.Is(err, client.ErrBadVersion) {
		t.Errorf("unbind of an old version = %v", err)
	}
	w.Must(names.Unbind(w.Ctx, "a", 2))
	for what, err := range map[string]error{
		"resolve":  second(names.Resolve(w.Ctx, "a")),
		"rebind":   second(names.Rebind(w.Ctx, "a", nil, client.AnyVersion)),
		"rebind 0": second(names.Rebind(w.Ctx, "a", nil, 0)),
		"unbind":   names.Unbind(w.Ctx, "a", client.AnyVersion),
	} {
		if !errors.Is(err, naming.ErrUnbound) || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("%s of what is not bound = %v, want ErrUnbound with the name", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// An ephemeral binding ends with its session.
func TestEphemeral(t *testing.T) {
	w := trial.New(t)
	w.Must(open(t, w.C).BindEphemeral(w.Ctx, "a/b", []byte("1")))
	bound := false
	for b, err := range open(t, w.Look).Follow(w.Ctx, "a/b") {
		if err == nil && !bound {
			bound = true
			id := w.C.Session().ID()
			if b.Owner != id {
				t.Errorf("binding is %+v, want one of session %v", b, id)
			}
			w.Proxy.ExpireSession(id)
			continue
		}
		if !errors.Is(err, naming.ErrUnbound) || !bound {
			t.Errorf("follow = %+v, %v", b, err)
		}
		break
	}
}

func TestBadUse(t *testing.T) {
	w := trial.New(t)
	for _, path := range []string{"", "names", "/", "/names/"} {
		if _, err := naming.New(w.C, path, naming.Options{}); !errors.Is(err, client.ErrBadArguments) {
			t.Errorf("new at %q = %v", path, err)
		}
	}
	names := open(t, w.C)
	for _, name := range []string{"", "/", "/a", "a/", "a//b"} {
		for what, err := range map[string]error{
			"bind":    names.Bind(w.Ctx, name, nil),
			"resolve": second(names.Resolve(w.Ctx, name)),
			"rebind":  second(names.Rebind(w.Ctx, name, nil, 0)),
			"unbind":  names.Unbind(w.Ctx, name, 0),
			"follow":  followed(names.Follow(w.Ctx, name)),
		} {
			if !errors.Is(err, client.ErrBadArguments) || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
				t.Errorf("%s of %q = %v", what, name, err)
			}
		}
		if name == "" {
			continue // a context
		}
		if _, err := names.List(w.Ctx, name); !errors.Is(err, client.ErrBadArguments) {
			t.Errorf("list of %q = %v", name, err)
		}
	}
}

func followed(seq func(func(naming.Binding, error) bool)) (last error) {
	for _, last = range seq {
	}
	return last
}

func TestForeignChildren(t *testing.T) {
	w := trial.New(t)
	names := open(t, w.C)
	w.Must(names.Bind(w.Ctx, "a", nil))
	_, err := w.Look.Create(w.Ctx, "/app/names/a b", nil, client.CreateOptions{})
	w.Must(err)
	if _, err := names.List(w.Ctx, ""); !errors.Is(err, recipes.ErrLayout) || !strings.Contains(err.Error(), `"a b"`) {
		t.Errorf("list = %v, want ErrLayout with the child", err)
	}
	if _, err := names.Resolve(w.Ctx, "a"); err != nil {
		t.Errorf("resolve beside it = %v", err)
	}
}

func TestForbidden(t *testing.T) {
	w := trial.New(t)
	_, err := settle.CreateAll(w.Ctx, w.Look, "/app/names", nil, client.CreateOptions{})
	w.Must(err)
	_, err = w.Look.SetACL(w.Ctx, "/app/names", client.ReadACL(), client.AnyVersion)
	w.Must(err)
	names := open(t, w.C)
	for _, name := range []string{"a", "a/b"} {
		if err := names.Bind(w.Ctx, name, nil); !errors.Is(err, client.ErrNoAuth) || !strings.Contains(err.Error(), "/app/names") {
			t.Errorf("bind %s = %v, want no auth with the path", name, err)
		}
	}
	if got := w.Children("/app/names"); len(got) > 0 {
		t.Errorf("%q is left", got)
	}
}
