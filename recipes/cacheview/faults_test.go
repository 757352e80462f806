package cacheview_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/cacheview"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// With each fault, the changes that Follow returns add up to the state on the servers.
func TestEveryFault(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		put(w, "/app/a", "1")
		put(w, "/app/b", "1")
		nodes, err := cacheview.OpenChildren(w.Ctx, w.C, "/app", cacheview.Options[int]{})
		if err != nil {
			w.Errorf("open = %v", err)
			return
		}
		defer nodes.Close(w.Ctx)
		put(w, "/app/a", "2")
		drop(w, "/app/b")
		put(w, "/app/c", "3")
		got, want := make(map[string]int), map[string]int{"a": 2, "c": 3}
		for change, err := range nodes.Follow(w.Ctx) {
			w.Must(err)
			if got[change.Name] = change.Now.Value; !change.Now.Exists {
				delete(got, change.Name)
			}
			if maps.Equal(got, want) {
				break
			}
		}
		for err = nodes.Sync(w.Ctx); trial.Passing(err); {
			err = nodes.Sync(w.Ctx)
		}
		w.Must(err)
		if current, err := nodes.Current(); err != nil || !maps.Equal(current, want) {
			w.Errorf("it is %v, %v, want %v", current, err, want)
		}
	})
}

// Clients follow while connections break, sessions end and leaders are killed. Each sees the
// values of each node in order.
func TestStorm(t *testing.T) {
	trial.Storms(t, trial.Weather{Seeds: 2}, func(s *trial.Storm) {
		const names = 3
		writes := make(chan struct{})
		go func() {
			defer close(writes)
			for n := 1; !s.Over(); n++ {
				path, data := fmt.Sprint("/app/", n%names), []byte(fmt.Sprint(n))
				_, err := s.Look.Set(s.Ctx, path, data, client.AnyVersion)
				if errors.Is(err, client.ErrNoNode) {
					_, err = settle.CreateAll(s.Ctx, s.Look, path, data, client.CreateOptions{})
				}
				if err != nil && !client.IsAmbiguous(err) {
					s.Errorf("write = %v", err)
				}
			}
		}()
		s.Each(func(i int, _ *rand.Rand) { follow(s, s.Client(i)) })
		<-writes
	})
}

// follow follows until the storm is over or the session has ended.
func follow(s *trial.Storm, c *client.Client) {
	nodes, err := cacheview.OpenChildren(s.Ctx, c, "/app", cacheview.Options[int]{})
	if !s.Explain("open", err) {
		return
	}
	defer nodes.Close(s.Ctx)
	ctx, end := s.UntilCalm()
	defer end()
	seen := make(map[string]int)
	for change, err := range nodes.Follow(ctx) {
		if !s.Explain("follow", err, trial.ErrCalm) {
			return
		}
		if n, _ := strconv.Atoi(change.Name); change.Now.Value <= seen[change.Name] || change.Now.Value%3 != n {
			s.Errorf("%s was %d, and is %d then", change.Name, seen[change.Name], change.Now.Value)
		}
		seen[change.Name] = change.Now.Value
	}
}
