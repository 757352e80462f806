package naming_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/naming"
)

// With each fault, a name is bound as the calls reported.
func TestEveryFault(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		names, look := open(w.T, w.C), open(w.T, w.Look)
		expect := func(what, name string, err error, was, is string) {
			w.Helper()
			got := is
			if err != nil && !w.Expires {
				w.Errorf("%s = %v, but the session lives", what, err)
			}
			w.Must(w.Look.Sync(w.Ctx, "/"))
			b, lookErr := look.Resolve(w.Ctx, name)
			if got = string(b.Value); errors.Is(lookErr, naming.ErrUnbound) {
				got = "-"
			} else {
				w.Must(lookErr)
			}
			switch {
			case err == nil && got != is, err != nil && !client.IsAmbiguous(err) && got != was, got != was && got != is:
				w.Errorf("after %s = %v the name is %q, before it was %q", what, err, got, was)
			case err != nil: // the error that an unharmed call would have returned
				bindAs(w, look, name, is)
			}
		}
		expect("bind", "a/b", names.Bind(w.Ctx, "a/b", []byte("1")), "-", "1")
		_, err := names.Rebind(w.Ctx, "a/b", []byte("2"), 0)
		expect("rebind", "a/b", err, "1", "2")
		_, err = names.Rebind(w.Ctx, "a/b", []byte("3"), client.AnyVersion)
		expect("rebind any", "a/b", err, "2", "3")
		expect("unbind", "a/b", names.Unbind(w.Ctx, "a/b", client.AnyVersion), "3", "-")
	})
}

// bindAs binds a name to a value, or unbinds it if the value is "-".
func bindAs(w *trial.World, look *naming.Names, name, value string) {
	w.Helper()
	if err := look.Unbind(w.Ctx, name, client.AnyVersion); err != nil && !errors.Is(err, naming.ErrUnbound) {
		w.Fatal(err)
	}
	if value == "-" {
		return
	}
	// The version is the one that the name would have.
	w.Must(look.Bind(w.Ctx, name, []byte("0")))
	for _, v := range []string{"2", "3"} {
		if value == "1" {
			break
		}
		_, err := look.Rebind(w.Ctx, name, []byte(v), client.AnyVersion)
		w.Must(err)
		if v == value {
			return
		}
	}
	w.Must(look.Unbind(w.Ctx, name, client.AnyVersion))
	w.Must(look.Bind(w.Ctx, name, []byte(value)))
}

// Clients bind names and lose their sessions. At any time each name is bound by one of them,
// as the calls reported. When a session has ended, its names are free again.
func TestStorm(t *testing.T) {
	trial.Storms(t, trial.Weather{Seeds: 2}, func(s *trial.Storm) {
		const names = 3
		binds := make([]int, s.Clients())
		s.Each(func(i int, rng *rand.Rand) {
			if bindOnce(s, i, fmt.Sprintf("pool/%d", rng.IntN(names)), fmt.Sprintf("%d-%d", i, rng.Uint64())) {
				binds[i]++
			}
		})
		s.Logf("bound %d", binds)
	})
}

// bindOnce binds a name, checks that the binding is its own, and unbinds it.
func bindOnce(s *trial.Storm, i int, name, value string) (bound bool) {
	c := s.Client(i)
	names, id := open(s.T, c), session(c)
	if !s.Explain("bind", names.BindEphemeral(s.Ctx, name, []byte(value)), naming.ErrBound) {
		return false
	}
	// As long as the session lives, no other client can bind the name or change the binding.
	b, err := names.Resolve(s.Ctx, name)
	if err == nil && (string(b.Value) != value || b.Owner != id) {
		s.Errorf("%s was bound to %s by session %v, but is %+v", name, value, id, b)
	}
	s.Explain("resolve of a name that is bound", err)
	s.Explain("unbind of a name that is bound", names.Unbind(s.Ctx, name, 0))
	return true
}

func session(c *client.Client) client.SessionID {
	id := c.Session().ID()
	return id
}
