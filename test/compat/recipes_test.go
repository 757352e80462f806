//go:build compat

package compat

import "testing"

// TestRecipes runs all tests of the recipes with a server of Apache's: the connection
// breaks at each of their requests, before and after it, and the session ends at each.
// With zkd they do so on their own. Most of the time is waiting. With -full 3.9 gets the same.
func TestRecipes(t *testing.T) {
	targets := []kind{apache}
	if *fullFlag {
		targets = append(targets, apache39)
	}
	for _, k := range targets {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			testPackages(t, start(t, k, ourClient).addr, ".", "recipes/...")
		})
	}
}

// TestEnsembleRecipes runs the recipes' storms with an ensemble whose leader is killed and
// started again, process and all, meanwhile. With -full Apache's gets the same.
func TestEnsembleRecipes(t *testing.T) {
	t.Parallel()
	targets := []kind{target(t)}
	if *fullFlag {
		targets = kinds(t)
	}
	for _, k := range targets {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			e := startEnsemble(t, k, ourClient)
			done, kills := make(chan struct{}), make(chan int)
			go func() { kills <- e.killLeaders(t, done) }()
			testPackages(t, e.hosts(), "Storm", "recipes/...")
			close(done)
			n := <-kills
			t.Logf("%d leaders killed", n)
			if n < 2 {
				t.Errorf("only %d leaders were killed", n)
			}
		})
	}
}
