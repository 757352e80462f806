package election_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

func TestBadOptions(t *testing.T) {
	w := trial.New(t)
	for _, c := range []struct {
		name, path string
		o          election.Options
		says       string
	}{
		{"root", "/", election.Options{}, "below"},
		{"relative path", "leader", election.Options{}, "leader"},
		{"no path", "", election.Options{}, "path"},
		{"unknown layout", "/e", election.Options{Layout: 9}, "Options.Layout"},
		{"negative reserve", "/e", election.Options{Options: hold.Options{Reserve: -time.Second}}, "Options.Reserve"},
		{"acknowledgements among candidates", "/e", election.Options{Acknowledgements: "/e/acks"}, "Options.Acknowledgements"},
		{"acknowledgements at the path", "/e", election.Options{Acknowledgements: "/e"}, "Options.Acknowledgements"},
		{"acknowledgements nowhere", "/e", election.Options{Acknowledgements: "acks"}, "Options.Acknowledgements"},
	} {
		if _, err := election.NewLatch(w.C, c.path, c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error that says %q", c.name, err, c.says)
		}
	}
	for _, c := range []struct {
		name, path string
		o          hold.Options
	}{
		{"root", "/", hold.Options{}},
		{"relative path", "master", hold.Options{}},
		{"negative reserve", "/master", hold.Options{Reserve: -1}},
	} {
		if _, err := election.NewMaster(w.C, c.path, c.o); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
	if _, err := election.New(nil, "/e", election.Options{}); !errors.Is(err, client.ErrBadArguments) {
		t.Errorf("no client: %v", err)
	}
	if _, err := election.NewMaster(nil, "/e", hold.Options{}); !errors.Is(err, client.ErrBadArguments) {
		t.Errorf("no client: %v", err)
	}
}

// Leadership that has ended cannot be released, and a closed latch cannot be used.
func TestBadUse(t *testing.T) {
	w := trial.New(t)
	l := start(t, w.C, "/e", election.Options{})
	leadership := await(w, l)
	w.Must(l.Start()) // it has been started
	w.Must(leadership.Release(w.Ctx))
	if err := leadership.Release(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
		t.Errorf("second resign = %v", err)
	}
	for _, err := range []error{leadership.Err(), leadership.Acknowledge(w.Ctx, nil)} {
		if !errors.Is(err, recipes.ErrNotHeld) {
			t.Errorf("who has resigned gets %v", err)
		}
	}
	again := await(w, l)
	w.Must(l.Close(w.Ctx))
	w.Must(l.Close(w.Ctx))
	if err := again.Release(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
		t.Errorf("resign after close = %v", err)
	}
	if cause := context.Cause(again.Context()); !errors.Is(cause, recipes.ErrClosed) {
		t.Errorf("close ends leadership with %v", cause)
	}
	_, awaited := l.Await(w.Ctx)
	var followed error
	for _, followed = range l.Follow(w.Ctx) {
	}
	for _, err := range []error{l.Start(), awaited, followed} {
		if !errors.Is(err, recipes.ErrClosed) {
			t.Errorf("a closed latch says %v", err)
		}
	}
	if names := w.Children("/e"); len(names) > 0 {
		t.Errorf("there are %q left", names)
	}
	never, err := election.NewLatch(w.C, "/never", election.Options{})
	w.Must(err)
	w.Must(never.Close(w.Ctx))
	if err := never.Start(); !errors.Is(err, recipes.ErrClosed) {
		t.Errorf("start after close = %v", err)
	}
	if names := w.Children("/never"); names != nil {
		t.Errorf("a latch that was never started has made %q", names)
	}
}

// A node of another kind ends the latch, with an error that names it.
func TestForeignChildren(t *testing.T) {
	w := trial.New(t)
	for layout := election.CuratorLatch; layout <= election.ElectionSupport; layout++ {
		path := "/" + layout.String()
		foreign := path + "/0123-n_0000000000"
		if layout == election.RecipePage {
			foreign = path + "/n_000"
		}
		_, err := settle.CreateAll(w.Ctx, w.Look, foreign, nil, client.CreateOptions{})
		w.Must(err)
		l := start(t, w.C, path, election.Options{Options: hold.Options{Data: []byte("a")}, Layout: layout})
		_, err = l.Await(w.Ctx)
		if !errors.Is(err, recipes.ErrLayout) || !strings.Contains(err.Error(), foreign[len(path)+1:]) {
			t.Errorf("%v: await beside %s = %v", layout, foreign, err)
		}
		if _, err := l.Election().Contenders(w.Ctx); !errors.Is(err, recipes.ErrLayout) {
			t.Errorf("%v: candidates = %v", layout, err)
		}
		if names := w.AwaitChildren(path, 1); len(names) != 1 {
			t.Errorf("%v: there are %q", layout, names)
		}
	}
	l := start(t, w.C, "/e", election.Options{})
	name := strings.TrimPrefix(await(w, l).Path(), "/e")
	_, err := settle.CreateAll(w.Ctx, w.Look, "/e-acknowledged"+name, []byte("yes"), client.CreateOptions{})
	w.Must(err)
	if _, _, err := l.Election().Leader(w.Ctx); !errors.Is(err, recipes.ErrLayout) {
		t.Errorf("leader with a foreign acknowledgement = %v", err)
	}
}

// The error of a client that may not create or read has the operation and the path.
func TestForbidden(t *testing.T) {
	w := trial.New(t)
	w.Must(w.Look.Session().AddAuth(w.Ctx, "digest", []byte("owner:secret")))
	_, err := w.Look.Create(w.Ctx, "/closed", nil, client.CreateOptions{ACL: []client.ACL{client.DigestACL(client.PermAll, "owner", "secret")}})
	w.Must(err)
	for _, path := range []string{"/closed", "/closed/below"} {
		l := start(t, w.C, path, election.Options{})
		if _, err := l.Await(w.Ctx); !errors.Is(err, client.ErrNoAuth) || !strings.Contains(err.Error(), "/closed") {
			t.Errorf("await = %v", err)
		}
		m := newMaster(t, w.C, path+"/master", "")
		nobody := func(context.Context, *election.Mastership) error { return errors.New("it is master") }
		if err := m.Run(w.Ctx, nobody); !errors.Is(err, client.ErrNoAuth) || !strings.Contains(err.Error(), "/closed") {
			t.Errorf("run = %v", err)
		}
		g := asynchronous(t, w.C, path+"/master", "")
		if err := g.over(w); !errors.Is(err, client.ErrNoAuth) {
			t.Errorf("campaign = %v", err)
		}
	}
	if names := w.Children("/closed"); len(names) > 0 {
		t.Errorf("there are %q left", names)
	}
	l := start(t, w.Look, "/e", election.Options{Options: hold.Options{ACL: []client.ACL{client.DigestACL(client.PermAll, "owner", "secret")}}})
	await(w, l)
	if _, err := w.C.Create(w.Ctx, "/e/_c_", nil, client.CreateOptions{}); !errors.Is(err, client.ErrNoAuth) {
		t.Errorf("the path is open: %v", err)
	}
}
