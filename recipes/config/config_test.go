package config_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/config"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

type limits struct{ Rate int }

func (l limits) check() error {
	if l.Rate < 0 {
		return errors.New("rate is negative")
	}
	return nil
}

var options = config.Options[limits]{Validate: limits.check}

func withDefault(rate int) config.Options[limits] {
	o := options
	o.Default = new(limits{rate})
	return o
}

func open(t *testing.T, ctx context.Context, c *client.Client, o config.Options[limits]) *config.Config[limits] {
	t.Helper()
	cfg, err := config.Open(ctx, c, "/app/config", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cfg.Close(context.Background()) })
	return cfg
}

func set(w *trial.World, rate int) {
	w.Helper()
	_, err := config.Set(w.Ctx, w.Look, "/app/config", options, limits{rate}, client.AnyVersion)
	w.Must(err)
}

func write(w *trial.World, path, data string) {
	w.Helper()
	_, err := w.Look.Set(w.Ctx, path, []byte(data), client.AnyVersion)
	w.Must(err)
}

// An administrator sets the node. A follower is woken and reads once for each set, and sends
// no request in between.
func TestTraceFollow(t *testing.T) {
	w := trial.New(t)
	set(w, 0)
	rec := w.Record()
	cfg := open(t, w.Ctx, w.C, options)
	want := 0
	for now, err := range cfg.Follow(w.Ctx) {
		if w.Must(err); now.Value.Rate != want || cfg.Get().Rate != want {
			t.Fatalf("rate is %d, and then %d, want %d", now.Value.Rate, cfg.Get().Rate, want)
		}
		if want++; want == 4 {
			break
		}
		set(w, want)
	}
	change := []string{"event NodeDataChanged /app/config", "getData /app/config"}
	wanted := append([]string{"sync /app/config", "addWatch /app/config", "getData /app/config"}, slices.Repeat(change, 3)...)
	if got := w.Trace(rec); !slices.Equal(got, wanted) {
		t.Errorf("it asks for %q, want %q", got, wanted)
	}
}

// A value that is not good is reported, and the last good value stays.
func TestInvalidKeepsTheLastGood(t *testing.T) {
	w := trial.New(t)
	set(w, 1)
	cfg := open(t, w.Ctx, w.C, options)
	steps := []struct {
		do   func()
		want int
		err  error
	}{
		{func() {}, 1, nil},
		{func() { write(w, "/app/config", `{"Rate":-1}`) }, 1, config.ErrInvalid},
		{func() { write(w, "/app/config", `{"Rate":`) }, 1, typed.ErrData},
		{func() { write(w, "/app/config", `{"Rate":2}`) }, 2, nil},
		{func() { w.Must(w.Look.Delete(w.Ctx, "/app/config", client.AnyVersion)) }, 2, client.ErrNoNode},
		{func() { set(w, 3) }, 3, nil},
	}
	i := 0
	for now, err := range cfg.Follow(w.Ctx) {
		if now.Value.Rate != steps[i].want || !errors.Is(err, steps[i].err) || !errors.Is(cfg.Problem(), steps[i].err) {
			t.Fatalf("step %d: %+v, %v, want %d, %v", i, now, err, steps[i].want, steps[i].err)
		}
		if err != nil && !strings.Contains(err.Error(), "/app/config") {
			t.Errorf("%q does not say where", err)
		}
		if i++; i == len(steps) {
			break
		}
		steps[i].do()
	}
	if _, err := cfg.Set(w.Ctx, limits{-5}, client.AnyVersion); !errors.Is(err, config.ErrInvalid) {
		t.Errorf("set of a bad value = %v", err)
	}
	w.Must(cfg.Sync(w.Ctx))
	if got := cfg.Get().Rate; got != 3 {
		t.Errorf("after a refused set the rate is %d", got)
	}
}

// The default applies while there is no node: before it is created and after it is deleted.
func TestDefault(t *testing.T) {
	w := trial.New(t)
	cfg := open(t, w.Ctx, w.C, withDefault(7))
	i := 0
	for now, err := range cfg.Follow(w.Ctx) {
		w.Must(err)
		want := []typed.Value[limits]{{Value: limits{7}}, {Value: limits{8}, Exists: true}, {Value: limits{7}}}[i]
		if now.Value != want.Value || now.Exists != want.Exists {
			t.Errorf("step %d: %+v, want %+v", i, now, want)
		}
		switch i++; i {
		case 1:
			set(w, 8)
		case 2:
			w.Must(w.Look.Delete(w.Ctx, "/app/config", client.AnyVersion))
		}
		if i == 3 {
			break
		}
	}
}

// logged are the problems that were logged.
type logged chan error

func (l logged) Log(_ context.Context, _ slog.Level, _ string, args ...any) {
	l <- args[len(args)-1].(error)
}

// Without a default Open and OpenTree wait for the first good value, and say so.
func TestOpenLogsWhatItWaitsFor(t *testing.T) {
	w := trial.New(t)
	for name, open := range map[string]func(ctx context.Context, log client.Logger) error{
		"Open": func(ctx context.Context, log client.Logger) error {
			o := options
			o.Logger = log
			_, err := config.Open(ctx, w.C, "/app/config", o)
			return err
		},
		"OpenTree": func(ctx context.Context, log client.Logger) error {
			_, err := config.OpenTree(ctx, w.C, "/app/keys", config.TreeOptions{Logger: log})
			return err
		},
	} {
		ctx, cancel := context.WithCancelCause(w.Ctx)
		log := make(logged, 10)
		opened := make(chan error)
		go func() {
			opened <- open(ctx, log)
		}()
		if err := <-log; !errors.Is(err, client.ErrNoNode) {
			t.Errorf("%s logged %v", name, err)
		}
		enough := errors.New("enough")
		cancel(enough)
		if err := <-opened; !errors.Is(err, enough) || !errors.Is(err, client.ErrNoNode) {
			t.Errorf("%s = %v", name, err)
		}
	}
}

// Without a default Open waits for the first good value. Its error names the problem.
func TestOpenWaits(t *testing.T) {
	w := trial.New(t)
	ctx, cancel := context.WithCancelCause(w.Ctx)
	enough := errors.New("enough")
	rec := w.Record()
	opened := make(chan error)
	go func() {
		_, err := config.Open(ctx, w.C, "/app/config", options)
		opened <- err
	}()
	w.Must(rec.Await(w.Ctx, "a look", func(_ zktest.Traced) bool { return true }))
	cancel(enough)
	if err := <-opened; !errors.Is(err, enough) || !strings.Contains(err.Error(), "/app/config") {
		t.Errorf("open = %v, want the cause and the path", err)
	}

	_, err := settle.CreateAll(w.Ctx, w.Look, "/app/config", []byte("bad"), client.CreateOptions{})
	w.Must(err)
	go func() {
		cfg, err := config.Open(w.Ctx, w.C, "/app/config", options)
		if err == nil {
			if cfg.Get().Rate != 1 {
				t.Errorf("rate is %d, want 1", cfg.Get().Rate)
			}
			cfg.Close(w.Ctx)
		}
		opened <- err
	}()
	set(w, 1)
	w.Must(<-opened)
}

// awaitStale waits until a Config or Tree is stale, or is not.
func awaitStale(reader interface{ Stale() (time.Time, bool) }, want bool) {
	for _, stale := reader.Stale(); stale != want; _, stale = reader.Stale() {
		runtime.Gosched()
	}
}

// While the connection is lost the value stays, and Stale reports that it may be old.
func TestStale(t *testing.T) {
	w := trial.New(t)
	set(w, 1)
	update(w, w.Look, keys{"rate": "1"})
	cfg, tree := open(t, w.Ctx, w.C, options), openTree(t, w.Ctx, w.C, config.TreeOptions{})
	if _, stale := cfg.Stale(); stale {
		t.Error("it is stale, but the connection is there")
	}
	awaitStale(tree, false)
	w.Disconnect()
	set(w, 2)
	update(w, w.Look, keys{"rate": "2"})
	awaitStale(cfg, true)
	awaitStale(tree, true)
	if got, inTree := cfg.Get().Rate, tree.Get().Keys["rate"]; got != 1 || inTree != "1" {
		t.Errorf("without a connection the rate is %d, in the tree %s, want 1", got, inTree)
	}
	w.Proxy.Accept()
	w.Must(cfg.Sync(w.Ctx))
	if _, stale := cfg.Stale(); stale || cfg.Get().Rate != 2 {
		t.Errorf("after a sync stale is %t, and the rate %d, want 2", stale, cfg.Get().Rate)
	}
	w.Must(tree.Sync(w.Ctx))
	if got := tree.Get().Keys["rate"]; got != "2" {
		t.Errorf("after a sync the rate in the tree is %s, want 2", got)
	}
	awaitStale(tree, false)
}

// A set of an old version is refused.
func TestSetVersions(t *testing.T) {
	w := trial.New(t)
	for i, test := range []struct {
		version, want int32
		err           error
	}{
		{0, 0, client.ErrNoNode},
		{client.AnyVersion, 0, nil},
		{client.AnyVersion, 1, nil},
		{1, 2, nil},
		{1, 0, client.ErrBadVersion},
		{client.AnyVersion, 3, nil},
	} {
		got, err := config.Set(w.Ctx, w.C, "/app/config", options, limits{i}, test.version)
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%d: set of version %d = %d, %v, want %d, %v", i, test.version, got, err, test.want, test.err)
		}
	}
	cfg := open(t, w.Ctx, w.C, options)
	if now := cfg.Current(); now.Stat.Version != 3 || now.Value.Rate != 5 {
		t.Errorf("it is %+v", now)
	}
}

func TestBadUse(t *testing.T) {
	w := trial.New(t)
	for _, path := range []string{"", "config", "/", "/config/"} {
		if _, err := config.Open(w.Ctx, w.C, path, options); !errors.Is(err, client.ErrBadArguments) {
			t.Errorf("open of %q = %v", path, err)
		}
		if _, err := config.Set(w.Ctx, w.C, path, options, limits{}, 0); !errors.Is(err, client.ErrBadArguments) {
			t.Errorf("set of %q = %v", path, err)
		}
		if _, err := config.OpenTree(w.Ctx, w.C, path, config.TreeOptions{}); !errors.Is(err, client.ErrBadArguments) {
			t.Errorf("open of the tree %q = %v", path, err)
		}
	}
	if _, err := config.Open(w.Ctx, w.C, "/config", withDefault(-1)); !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), "Default") {
		t.Errorf("open with a bad default = %v", err)
	}
	cfg := open(t, w.Ctx, w.C, withDefault(1))
	follows := make(chan error)
	go func() {
		var last error
		for _, last = range cfg.Follow(w.Ctx) {
		}
		follows <- last
	}()
	w.Must(cfg.Close(w.Ctx))
	w.Must(cfg.Close(w.Ctx))
	if err := <-follows; !errors.Is(err, recipes.ErrClosed) {
		t.Errorf("follow ended with %v", err)
	}
	if _, err := cfg.Set(w.Ctx, limits{1}, client.AnyVersion); !errors.Is(err, recipes.ErrClosed) {
		t.Errorf("set after close = %v", err)
	}
	if err := cfg.Sync(w.Ctx); !errors.Is(err, recipes.ErrClosed) {
		t.Errorf("sync after close = %v", err)
	}
	if got := cfg.Get().Rate; got != 1 {
		t.Errorf("rate after close = %d", got)
	}
}

// If the ACL forbids reading the node, Follow returns an error with its path, and the default
// applies.
func TestForbidden(t *testing.T) {
	w := trial.New(t)
	secret := []client.ACL{client.DigestACL(client.PermAll, "admin", "secret")}
	admin := w.Other()
	w.Must(admin.Session().AddAuth(w.Ctx, "digest", []byte("admin:secret")))
	o := withDefault(1)
	o.ACL = secret
	_, err := config.Set(w.Ctx, admin, "/app/config", o, limits{2}, client.AnyVersion)
	w.Must(err)
	cfg := open(t, w.Ctx, w.C, o)
	for now, err := range cfg.Follow(w.Ctx) {
		if err == nil {
			continue // the default
		}
		if !errors.Is(err, client.ErrNoAuth) || !strings.Contains(err.Error(), "/app/config") || now.Value.Rate != 1 {
			t.Errorf("follow = %+v, %v, want no auth, and the last good value", now, err)
		}
		break
	}
	if _, err := cfg.Set(w.Ctx, limits{3}, client.AnyVersion); !errors.Is(err, client.ErrNoAuth) {
		t.Errorf("set = %v", err)
	}
}

// When the session ends for good, the value stays and Follow returns why it ends.
func TestSessionEnds(t *testing.T) {
	w := trial.New(t)
	set(w, 1)
	cfg := open(t, w.Ctx, w.C, options)
	id := w.C.Session().ID()
	w.Proxy.ExpireSession(id)
	var last error
	for _, last = range cfg.Follow(w.Ctx) {
	}
	if !errors.Is(last, client.ErrSessionExpired) || cfg.Get().Rate != 1 || !errors.Is(cfg.Problem(), client.ErrSessionExpired) {
		t.Errorf("follow ended with %v, the rate is %d", last, cfg.Get().Rate)
	}
}
