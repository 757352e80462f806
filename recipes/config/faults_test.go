package config_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/config"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// With each fault, acknowledged sets are in the value, and readers never see an older value
// after a newer one.
func TestEveryFaultConfig(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		cfg, err := config.Open(w.Ctx, w.C, "/app/config", withDefault(0))
		if err != nil {
			if !trial.Passing(err) {
				w.Errorf("open = %v", err)
			}
			return
		}
		defer cfg.Close(w.Ctx)
		for rate := 1; rate <= 2; rate++ {
			_, err := cfg.Set(w.Ctx, limits{rate}, client.AnyVersion)
			if err != nil && !w.Expires {
				w.Errorf("set %d = %v", rate, err)
			}
			for trial.Passing(err) { // the session has ended: try again
				_, err = cfg.Set(w.Ctx, limits{rate}, client.AnyVersion)
			}
			w.Must(err)
			for err = cfg.Sync(w.Ctx); trial.Passing(err); {
				err = cfg.Sync(w.Ctx)
			}
			w.Must(err)
			if got := cfg.Get().Rate; got != rate || cfg.Problem() != nil {
				w.Errorf("after set and sync the rate is %d, want %d; %v", got, rate, cfg.Problem())
			}
		}
		set(w, 9)
		for now, err := range cfg.Follow(w.Ctx) {
			if w.Must(err); now.Value.Rate == 9 {
				break
			}
		}
	})
}

// A change of several keys is made once or not at all, and readers see all of it.
func TestEveryFaultTree(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		maybe := 0
		for i := range 2 {
			_, err := config.UpdateTree(w.Ctx, w.C, "/app/keys", config.TreeOptions{}, both)
			switch {
			case err == nil:
			case client.IsAmbiguous(err) && w.Expires:
				maybe++
			case trial.Passing(err) && w.Expires:
				_, err = config.UpdateTree(w.Ctx, w.Look, "/app/keys", config.TreeOptions{}, both)
				w.Must(err)
			default:
				w.Errorf("update %d = %v", i, err)
			}
		}
		tree, err := config.OpenTree(w.Ctx, w.C, "/app/keys", config.TreeOptions{})
		if err != nil {
			if !trial.Passing(err) {
				w.Errorf("open = %v", err)
			}
			return
		}
		defer tree.Close(w.Ctx)
		if n := counted(w.T, tree.Get()); n > 2 || n < 2-maybe {
			w.Errorf("%d of 2 changes were made, and %d are in doubt", n, maybe)
		}
		_, err = config.UpdateTree(w.Ctx, w.Look, "/app/keys", config.TreeOptions{}, both)
		w.Must(err)
		for now, err := range tree.Follow(w.Ctx) {
			if err != nil && !trial.Passing(err) {
				w.Errorf("follow = %v", err)
			}
			if counted(w.T, now) >= 3-maybe {
				break
			}
		}
	})
}

// both counts in two keys, which are equal at any time.
func both(keys map[string]string) error {
	n, _ := strconv.Atoi(keys["a"])
	keys["a"], keys["b"] = fmt.Sprint(n+1), fmt.Sprint(n+1)
	return nil
}

// counted returns how often both was called successfully.
func counted(t *testing.T, s config.Snapshot) int {
	t.Helper()
	if s.Keys["a"] != s.Keys["b"] {
		t.Errorf("half of a change is seen: %v", s.Keys)
	}
	n, _ := strconv.Atoi(s.Keys["a"])
	return n
}

// All clients count in two keys and follow them. No one sees half of a change, or an older
// value after a newer one, and each acknowledged count is counted once.
func TestStormTree(t *testing.T) {
	trial.Storms(t, trial.Weather{Seeds: 2}, func(s *trial.Storm) {
		var mu sync.Mutex
		surely, maybe := 0, 0
		var work sync.WaitGroup
		for i := range s.Clients() {
			work.Go(func() {
				for !s.Over() {
					followTree(s, s.Client(i))
				}
			})
			work.Go(func() {
				for !s.Over() {
					_, err := config.UpdateTree(s.Ctx, s.Client(i), "/app/keys", config.TreeOptions{}, both)
					mu.Lock()
					switch {
					case err == nil:
						surely++
					case client.IsAmbiguous(err):
						maybe++
					case !trial.Passing(err):
						s.Errorf("update = %v", err)
					}
					mu.Unlock()
				}
			})
		}
		work.Wait()
		tree := openTree(s.T, s.Ctx, s.Look, config.TreeOptions{Default: keys{}})
		if err := tree.Sync(s.Ctx); err != nil {
			s.Error(err)
		}
		n := counted(s.T, tree.Get())
		if n < surely || n > surely+maybe {
			s.Errorf("%d changes were made, %d surely and %d in doubt", n, surely, maybe)
		}
		s.Logf("%d changes, %d acknowledged, %d in doubt", n, surely, maybe)
	})
}

// followTree follows until the storm is over or the session has ended.
func followTree(s *trial.Storm, c *client.Client) {
	tree, err := config.OpenTree(s.Ctx, c, "/app/keys", config.TreeOptions{Default: keys{}})
	if !s.Explain("open", err) {
		return
	}
	defer tree.Close(s.Ctx)
	ctx, end := s.UntilCalm()
	defer end()
	last := config.Snapshot{Zxid: -1}
	for now, err := range tree.Follow(ctx) {
		s.Explain("follow", err, trial.ErrCalm)
		n := counted(s.T, now)
		if now.Zxid < last.Zxid || n < counted(s.T, last) {
			s.Errorf("it went back from %v to %v", last, now)
		}
		last = now
	}
}

// An administrator sets and all clients follow: each sees the values in order, and the last
// one in the end.
func TestStormConfig(t *testing.T) {
	trial.Storms(t, trial.Weather{Seeds: 2}, func(s *trial.Storm) {
		last := make(chan int)
		go func() {
			rate := 0
			for !s.Over() {
				rate++
				if _, err := config.Set(s.Ctx, s.Look, "/app/config", options, limits{rate}, client.AnyVersion); err != nil && !client.IsAmbiguous(err) {
					s.Errorf("set = %v", err)
				}
			}
			last <- rate
			close(last)
		}()
		var work sync.WaitGroup
		work.Go(func() { s.Each(func(i int, _ *rand.Rand) { followConfig(s, s.Client(i)) }) })
		rate := <-last
		work.Wait()
		cfg := openStorm(s, s.Client(0))
		for cfg == nil {
			cfg = openStorm(s, s.Client(0))
		}
		defer cfg.Close(s.Ctx)
		if err := cfg.Sync(s.Ctx); err != nil {
			s.Error(err)
		}
		if got := cfg.Get().Rate; got != rate {
			s.Errorf("in the end the rate is %d, want %d", got, rate)
		}
		s.Logf("%d sets", rate)
	})
}

func openStorm(s *trial.Storm, c *client.Client) *config.Config[limits] {
	cfg, err := config.Open(s.Ctx, c, "/app/config", withDefault(0))
	s.Explain("open", err)
	return cfg
}

func followConfig(s *trial.Storm, c *client.Client) {
	cfg := openStorm(s, c)
	if cfg == nil {
		return
	}
	defer cfg.Close(s.Ctx)
	ctx, end := s.UntilCalm()
	defer end()
	last := 0
	for now, err := range cfg.Follow(ctx) {
		s.Explain("follow", err, trial.ErrCalm)
		if now.Value.Rate < last {
			s.Errorf("it went back from %d to %d", last, now.Value.Rate)
		}
		last = now.Value.Rate
	}
}
